import { InvalidArgumentError } from "./errors.js";

/**
 * Reads properties of a caller's object, each once and in this order. Names that are not among them are refused: a
 * misspelt option must not be ignored.
 */
export function readOptions<const Names extends readonly string[]>(
  options: unknown,
  known: Names,
): { -readonly [Place in keyof Names]: unknown } {
  if (typeof options !== "object" || options === null) {
    throw new InvalidArgumentError(`the last argument is an object with the option ${known[0]}`);
  }
  let names: string[];
  const values: unknown[] = [];
  try {
    const readable = options as Readonly<Record<string, unknown>>;
    names = Object.keys(readable);
    for (const name of known) values.push(readable[name]);
  } catch (cause) {
    throw unreadable(cause);
  }
  for (const name of names) {
    if (!known.includes(name)) {
      // Whoever takes the value for the name would otherwise find a token or a key in a log.
      const shown = /^[a-z_]\w{0,31}$/i.test(name) ? `"${name}"` : "of this name";
      throw new InvalidArgumentError(
        `there is no option ${shown}, only ${known.join(", ").replace(/, (?=\w+$)/, " and ")}`,
      );
    }
  }
  return values as { -readonly [Place in keyof Names]: unknown };
}

/** A method of a caller's object, bound to it; nothing where there is none. */
export function readMethod(owner: unknown, name: string): ((...given: unknown[]) => unknown) | undefined {
  let found: unknown;
  try {
    found = (owner as Record<string, unknown> | null | undefined)?.[name];
  } catch (cause) {
    throw unreadable(cause);
  }
  if (found === undefined) return undefined;
  if (typeof found !== "function") throw new InvalidArgumentError(`${name} is not a method`);
  return (...given) => Reflect.apply(found, owner, given);
}

/** The error for an argument whose getter threw, or that is a proxy that did. */
export function unreadable(cause: unknown): InvalidArgumentError {
  return new InvalidArgumentError("an argument cannot be read", { cause });
}
