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
