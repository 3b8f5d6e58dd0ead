/** A line without its end. */
export interface Line {
  /** The first characters; no token is longer. */
  readonly text: string;
  /** How many characters the whole line has. */
  readonly length: number;
}

const LONGEST = 1024;

/** The lines of a stream, as they come. Of one that is too long, only the beginning is kept. */
export async function* lines(
  stream: AsyncIterable<Uint8Array>,
): AsyncGenerator<Line, void, undefined> {
  // A byte order mark is part of a line that is no token.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let text = "";
  let length = 0;
  const ended = (): Line => {
    const line = text.endsWith("\r") && length === text.length ? text.slice(0, -1) : text;
    const result = { text: line, length: length - (text.length - line.length) };
    text = "";
    length = 0;
    return result;
  };
  const add = (piece: string): void => {
    text += piece.slice(0, LONGEST - text.length);
    length += piece.length;
  };
  for await (const chunk of stream) {
    const pieces = decoder.decode(chunk, { stream: true }).split("\n");
    const last = pieces.pop() ?? "";
    for (const piece of pieces) {
      add(piece);
      yield ended();
    }
    add(last);
  }
  add(decoder.decode());
  if (length > 0) yield ended();
}
