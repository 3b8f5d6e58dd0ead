// What a store of used tokens is, and what the stores of this package are made of. They import it all from here: the
// bundles of all entries lie in one folder, so that only this one path to the errors is right in each of them.

import { InvalidArgumentError } from "./errors.js";

export { InvalidArgumentError, StoreFullError, StoreUnavailableError, TokenExpiredError } from "./errors.js";
export { readMethod, readOptions } from "./options.js";
export { readClock } from "./seconds.js";

/**
 * Remembers which tokens were used. Whoever shares one lets a link through once among them all.
 *
 * Ids are 16 bytes, a copy for each call. Times are seconds since the Unix epoch. Whatever goes wrong, a store throws:
 * {@link StoreFullError} when it has no room, since forgetting a token that may still be replayed lets it through again;
 * {@link TokenExpiredError} when `rememberUntil` is over. `mailroom-verifier/conformance` tests a store of your own.
 */
export interface TokenStore {
  /**
   * Marks a token as used and remembers that until `rememberUntil`; a later time for the same id extends it.
   *
   * @returns `true` to exactly one of all who ever ask for this id, and `false` to the others
   */
  consume(id: Uint8Array, rememberUntil: number): boolean | Promise<boolean>;

  /**
   * Takes the next number for a try of a code, beginning with 1; no two callers get the same one. Without this method the
   * guard refuses recoveries.
   */
  attempt?(id: Uint8Array, rememberUntil: number): number | Promise<number>;

  /** Takes the use of a token back, because what it was used for did not happen. Its tries stay counted. */
  release?(id: Uint8Array): unknown;
}

/** @internal The option `namespace`: keeps installations apart that share a store, since a copied database has the same ids. */
export function readNamespace(namespace: unknown): string {
  if (typeof namespace !== "string" || !/^[\w.-]{1,64}$/.test(namespace)) {
    throw new InvalidArgumentError(
      "the option namespace is a string of 1 to 64 letters, digits, dots, hyphens and underscores",
    );
  }
  return namespace;
}

/** @internal An id as text, for stores that have no bytes. */
export function hexadecimal(id: Uint8Array): string {
  let text = "";
  for (const byte of id) text += byte.toString(16).padStart(2, "0");
  return text;
}
