import { InvalidArgumentError } from "../errors/errors.js";

/** The most bytes that a form with a token, a code and some fields of one's own has. */
export const MOST_BYTES = 16 * 1024;

/** For how many milliseconds a body may take to arrive. */
const PATIENCE = 10_000;

/** The fields of a form, or the status that refuses the body. */
export async function readForm(request: Request): Promise<URLSearchParams | number> {
  const { headers, body } = request;
  if (!isForm(headers)) return 415;
  if (Number(headers.get("Content-Length") ?? 0) > MOST_BYTES) return 413;
  if (request.bodyUsed || body?.locked) throw alreadyRead();
  if (body === null) return new URLSearchParams();
  const bytes = await readBytes(body);
  if (typeof bytes === "number") return bytes;
  try {
    return new URLSearchParams(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return 400;
  }
}

/** The cure for what no visitor can mend. */
function alreadyRead(): InvalidArgumentError {
  return new InvalidArgumentError(
    "the body of the form was read before the handler got it, and is in neither request.body nor " +
      "request.rawBody: mount the handler before whatever parses bodies, " +
      "or let that leave this address alone",
  );
}

/** A form in UTF-8 that is not compressed, which is what browsers send. */
function isForm(headers: Headers): boolean {
  const [type = "", ...parameters] = (headers.get("Content-Type") ?? "").toLowerCase().split(";");
  return (
    type.trim() === "application/x-www-form-urlencoded" &&
    parameters.every((parameter) => /^\s*charset=("?)utf-8\1\s*$/.test(parameter)) &&
    (headers.get("Content-Encoding") ?? "identity").toLowerCase() === "identity"
  );
}

async function readBytes(body: ReadableStream<Uint8Array>): Promise<Uint8Array | number> {
  const reader = body.getReader();
  const bytes = new Uint8Array(MOST_BYTES);
  let length = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooSlow = new Promise<408>((resolve) => {
    timer = setTimeout(resolve, PATIENCE, 408);
  });
  try {
    for (;;) {
      const read = await Promise.race([reader.read(), tooSlow]);
      if (read === 408) return ended(reader, 408);
      if (read.done) return bytes.subarray(0, length);
      if (length + read.value.length > MOST_BYTES) return ended(reader, 413);
      bytes.set(read.value, length);
      length += read.value.length;
    }
  } catch {
    // The visitor has left.
    return 400;
  } finally {
    clearTimeout(timer);
  }
}

function ended(reader: ReadableStreamDefaultReader, status: number): number {
  // Not awaited: a source that hangs may hang here, too.
  reader.cancel().catch(() => undefined);
  return status;
}
