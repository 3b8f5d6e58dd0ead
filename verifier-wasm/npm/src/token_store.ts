/**
 * Remembers which tokens were used, by whom. Whoever shares one lets a link through once among them all.
 *
 * Ids and owners are 16 bytes, copies for each call. Times are seconds since the Unix epoch. An owner stands for one
 * redemption and one code. Every call may be repeated, also late and after others, because an answer was lost: the repeat has
 * no effect of its own. Whatever goes wrong, a store throws: {@link StoreFullError} when it has no room, since forgetting a
 * token that may still be replayed lets it through again; {@link TokenExpiredError} when `rememberUntil` is over.
 * `mailroom-verifier/conformance` tests a store of your own.
 */
export interface TokenStore {
  /**
   * Marks a token as used and remembers that until `rememberUntil`; a later time for the same id extends it.
   *
   * @returns `true` to exactly one of all owners that ever ask for this id, each time it asks, and `false` to the others and
   * to one that released it
   */
  consume(id: Uint8Array, rememberUntil: number, owner: Uint8Array): boolean | Promise<boolean>;

  /**
   * Takes the use of this owner back, because what it was used for did not happen; others may use the token. It is final, also
   * when it comes before the consumption. Tries stay counted.
   */
  release?(id: Uint8Array, rememberUntil: number, owner: Uint8Array): unknown;

  /**
   * Takes the number of this owner's try of a code: how many owners have tried, this one included, or 101 for one too many. It
   * is the same for a repeat. Without this method the guard refuses recoveries.
   */
  attempt?(id: Uint8Array, rememberUntil: number, owner: Uint8Array): number | Promise<number>;
}
