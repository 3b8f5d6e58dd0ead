import { InvalidArgumentError } from "./errors.js";

/**
 * Reads properties of a caller's object, each once and in this order. Names that are not among them are refused: a
 * misspelt option must not be ignored.
 */
export function readOptions(options: unknown, known: readonly [string, string]): [unknown, unknown] {
  if (typeof options !== "object" || options === null) {
    throw new InvalidArgumentError(`the last argument is an object with the option ${known[0]}`);
  }
  let names: string[];
  let values: [unknown, unknown];
  try {
    const readable = options as Readonly<Record<string, unknown>>;
    names = Object.keys(readable);
    values = [readable[known[0]], readable[known[1]]];
  } catch (cause) {
    throw unreadable(cause);
  }
  for (const name of names) {
    if (name !== known[0] && name !== known[1]) {
      // Whoever takes the value for the name would otherwise find a token or a key in a log.
      const shown = /^[a-z_]\w{0,31}$/i.test(name) ? `"${name}"` : "of this name";
      throw new InvalidArgumentError(`there is no option ${shown}, only ${known.join(" and ")}`);
    }
  }
  return values;
}

/** The error for an argument whose getter threw, or that is a proxy that did. */
export function unreadable(cause: unknown): InvalidArgumentError {
  return new InvalidArgumentError("an argument cannot be read", { cause });
}
