import { InvalidArgumentError } from "../errors/errors.js";

/**
 * Reads own properties of a caller's object, each once and in this order. Properties of a prototype
 * are no options, since some programs let requests write to the prototype of all objects. Other
 * names are refused: a misspelt option must not be ignored.
 */
export function readOptions<const Names extends readonly string[]>(
  options: unknown,
  known: Names,
): { -readonly [Place in keyof Names]: unknown } {
  demandOptions(options, known);
  const values: unknown[] = [];
  let stray: string | undefined;
  try {
    const given = Object.keys(options);
    for (const name of known) {
      values.push(
        given.includes(name) ? (options as Readonly<Record<string, unknown>>)[name] : undefined,
      );
    }
    stray = given.find((name) => !known.includes(name));
  } catch (cause) {
    throw unreadable(cause);
  }
  if (stray !== undefined) throw strayOption(stray, known);
  return values as { -readonly [Place in keyof Names]: unknown };
}

/** What is expected of a token, as the caller gave it. */
interface GivenExpectation {
  readonly action: unknown;
  readonly code?: unknown;
  readonly expiresAt?: unknown;
  readonly nonce?: unknown;
}

/**
 * The options of those who expect a link or an activation, a token with its code,
 * or one that is redeemed.
 */
export const OF_LINK: readonly string[] = ["action", "nonce"];
export const OF_TOKEN: readonly string[] = ["action", "code", "nonce"];
export const OF_REDEMPTION: readonly string[] = ["action", "code", "expiresAt", "nonce"];

/**
 * The same for what every verification reads, by names that are known beforehand,
 * which is much faster.
 */
export function readExpectation(options: unknown, known: typeof OF_TOKEN): GivenExpectation {
  demandOptions(options, known);
  let action: unknown;
  let code: unknown;
  let expiresAt: unknown;
  let nonce: unknown;
  let stray: string | undefined;
  try {
    const given = options as GivenExpectation;
    for (const name of Object.keys(options)) {
      if (name === "action") action = given.action;
      else if (!known.includes(name)) stray = name;
      else if (name === "code") code = given.code;
      else if (name === "nonce") nonce = given.nonce;
      else expiresAt = given.expiresAt;
    }
  } catch (cause) {
    throw unreadable(cause);
  }
  if (stray !== undefined) throw strayOption(stray, known);
  return { action, code, expiresAt, nonce };
}

function demandOptions(options: unknown, known: readonly string[]): asserts options is object {
  if (typeof options !== "object" || options === null) {
    throw new InvalidArgumentError(`wrong: the options are ${known.join(", ")}`);
  }
}

function strayOption(name: string, known: readonly string[]): InvalidArgumentError {
  if (name === "code") return new InvalidArgumentError("wrong: code, which guard.redeem compares");
  // The name may be a token or a key by mistake, which must not get into a log.
  const shown = /^[a-z_]\w{0,31}$/i.test(name) ? `, not "${name}"` : "";
  return new InvalidArgumentError(`wrong: the options are ${known.join(", ")}${shown}`);
}

/** A method of a caller's object, bound to it, or `undefined` if the object has no such method. */
export function readMethod(
  owner: unknown,
  name: string,
): ((...given: unknown[]) => unknown) | undefined {
  let found: unknown;
  try {
    found = (owner as Record<string, unknown> | null | undefined)?.[name];
  } catch (cause) {
    throw unreadable(cause);
  }
  // A method may be inherited, but not from the prototype of all objects.
  if (found === undefined || found === (Object.prototype as Record<string, unknown>)[name])
    return undefined;
  if (typeof found !== "function") throw new InvalidArgumentError(`${name} is not a method`);
  return (...given) => Reflect.apply(found, owner, given);
}

/** The error for an argument whose getter threw, or that is a proxy that did. */
export function unreadable(cause: unknown): InvalidArgumentError {
  return new InvalidArgumentError("an argument cannot be read", { cause });
}

/**
 * Returns the text that a visitor sent as a token, a code or a nonce. An address with two of them
 * gives a list, a form without one gives nothing. Any value that is no string becomes the empty
 * string, which is neither token nor code nor nonce.
 */
export function textOf(sent: unknown): string {
  return typeof sent === "string" ? sent : "";
}

/** Does the same for a code. `undefined` means that there is no code. */
export function codeOf(sent: unknown): string | undefined {
  return sent === undefined ? undefined : textOf(sent);
}
