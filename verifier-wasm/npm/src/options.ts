import { InvalidArgumentError } from "./errors.js";
import type { Action } from "./types.js";

/**
 * Reads properties of a caller's object, each once and in this order. Names that are not among them are refused: a
 * misspelt option must not be ignored.
 */
export function readOptions<const Names extends readonly string[]>(
  options: unknown,
  known: Names,
): { -readonly [Place in keyof Names]: unknown } {
  demandOptions(options, known);
  const values: unknown[] = [];
  let stray: string | undefined;
  try {
    for (const name of known) values.push((options as Readonly<Record<string, unknown>>)[name]);
    for (const name in options) if (!known.includes(name) && Object.hasOwn(options, name)) stray = name;
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
}

/** The options of those who expect a link or an activation, a token with its code, or one that is redeemed. */
export const OF_LINK: readonly string[] = ["action"];
export const OF_TOKEN: readonly string[] = ["action", "code"];
export const OF_REDEMPTION: readonly string[] = ["action", "code", "expiresAt"];

/** The same for what every verification reads, by names that are known beforehand, which is much faster. */
export function readExpectation(options: unknown, known: typeof OF_TOKEN): GivenExpectation {
  demandOptions(options, known);
  let action: unknown;
  let code: unknown;
  let expiresAt: unknown;
  let stray: string | undefined;
  try {
    const given = options as GivenExpectation;
    action = given.action;
    if (known !== OF_LINK) code = given.code;
    if (known === OF_REDEMPTION) expiresAt = given.expiresAt;
    for (const name in options) {
      if (name === "action" || (name === "code" && known !== OF_LINK)) continue;
      if (!known.includes(name) && Object.hasOwn(options, name)) stray = name;
    }
  } catch (cause) {
    throw unreadable(cause);
  }
  if (stray !== undefined) throw strayOption(stray, known);
  return { action, code, expiresAt };
}

function demandOptions(options: unknown, known: readonly string[]): asserts options is object {
  if (typeof options !== "object" || options === null) {
    throw new InvalidArgumentError(`the last argument is an object with the option ${known[0]}`);
  }
}

function strayOption(name: string, known: readonly string[]): InvalidArgumentError {
  if (name === "code") {
    return new InvalidArgumentError(
      "no code is compared here: guard.redeem compares it and counts the tries",
    );
  }
  // Whoever takes the value for the name would otherwise find a token or a key in a log.
  const shown = /^[a-z_]\w{0,31}$/i.test(name) ? `"${name}"` : "of this name";
  return new InvalidArgumentError(`there is no option ${shown}, only ${known.join(", ")}`);
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

export function demandAction(action: unknown): asserts action is Action {
  if (action !== "activate" && action !== "recover") {
    throw new InvalidArgumentError('the option action is "activate" or "recover"');
  }
}

export function demandString(token: unknown): asserts token is string {
  if (typeof token !== "string") throw new InvalidArgumentError("a token is a string");
}

export function demandCode(code: unknown): asserts code is string | undefined {
  if (code !== undefined && typeof code !== "string") throw new InvalidArgumentError("a code is a string");
}
