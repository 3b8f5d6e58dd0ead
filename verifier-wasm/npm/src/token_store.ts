/**
 * Remembers which tokens were used. Whoever shares one lets a link through once among them all.
 *
 * All methods take the same: an id and an owner of 16 bytes, copies for each call, and the time until which to remember
 * what is asked, in seconds since the Unix epoch. An owner is one redemption: random bytes that the guard makes, never
 * anything of a request. Clients send a command again whose answer was lost, so every method has to be one that may be
 * repeated, and that may come late: by the owner a store knows a repeat from another redemption.
 *
 * Whatever goes wrong, a store throws: `StoreFullError` when it has no room, since forgetting a token that may
 * still be replayed lets it through again; `TokenExpiredError` when `rememberUntil` of a `consume` or an `attempt`
 * is over. `mailroom-verifier/conformance` tests a store of your own.
 */
export interface TokenStore {
  /**
   * Marks a token as used by this owner and remembers that until `rememberUntil`; a later time for the same id extends
   * all that is remembered of it.
   *
   * @returns `true` to the one owner that has the first use, however often it asks; `false` to all others, and to an
   *   owner that was released
   */
  consume(id: Uint8Array, rememberUntil: number, owner: Uint8Array): boolean | Promise<boolean>;

  /**
   * Ends the use of this owner, and no other, because what the token was used for did not happen. It is final, also when
   * it comes before the `consume` that it ends: the owner gets no first use any more, others do. Tries stay counted.
   * Once 100 owners had a use or were released, the store throws `StoreFullError` instead of giving another one.
   *
   * Without this method, what a callback could not do stays used.
   */
  release?(id: Uint8Array, rememberUntil: number, owner: Uint8Array): unknown;

  /**
   * Takes a number for this owner's try of a code: how many owners' tries stand, this one included. The same owner gets
   * the same number again. Once 100 owners have tried, those who took their try back included, the answer is 101, which is
   * too many for every guard, and nothing more is remembered. Without this method the guard refuses recoveries.
   */
  attempt?(id: Uint8Array, rememberUntil: number, owner: Uint8Array): number | Promise<number>;

  /**
   * Takes this owner's try back, of which nobody has learnt anything. It is final, also when it comes before the `attempt`
   * that it takes back: the owner is answered 101 from then on. Without this method the try stays counted.
   */
  withdraw?(id: Uint8Array, rememberUntil: number, owner: Uint8Array): unknown;
}
