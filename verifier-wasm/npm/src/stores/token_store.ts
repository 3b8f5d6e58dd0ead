/**
 * Remembers which tokens were used. All guards that share a store let a link through once.
 *
 * All methods take the same: an id and an owner of 16 bytes, copies for each call, and the time
 * until which to remember the operation, in seconds since the Unix epoch. An owner is one
 * redemption: random bytes that the guard makes, never anything of a request. Clients repeat a
 * command whose answer was lost, so every method must be idempotent, also when the repeat comes
 * late: the owner tells a repeat from another redemption.
 *
 * A store throws for every failure: `StoreFullError` when it has no room, since forgetting a token
 * that may still be replayed lets it through again; `TokenExpiredError` when `rememberUntil` of a
 * `consume` or an `attempt` is over. `mailroom-verifier/conformance` tests a store of your own.
 */
export interface TokenStore {
  /**
   * Marks a token as used by this owner and remembers that until `rememberUntil`; a later time for
   * the same id extends all that is remembered of it.
   *
   * @returns `true` for the one owner that has the first use, however often it calls; `false` for
   * all others, and for an owner that was released
   */
  consume(id: Uint8Array, rememberUntil: number, owner: Uint8Array): boolean | Promise<boolean>;

  /**
   * Ends the use of this owner, and no other, because what the token was used for did not happen.
   * It is final, also when it comes before the `consume` that it ends: the owner gets no first use
   * any more, others do. Attempts stay counted. Once 100 owners had a use or were released, the
   * store throws `StoreFullError` instead of giving another one.
   *
   * Without this method a token stays used when the callback failed.
   */
  release?(id: Uint8Array, rememberUntil: number, owner: Uint8Array): unknown;

  /**
   * Counts this owner's attempt at a code and returns the number of attempts that are not
   * withdrawn, this one included. The same owner gets the same number again. After 100 owners,
   * withdrawn ones included, the answer is 101, which is too many for every guard, and nothing more
   * is remembered. Without this method the guard refuses recoveries.
   */
  attempt?(id: Uint8Array, rememberUntil: number, owner: Uint8Array): number | Promise<number>;

  /**
   * Withdraws this owner's attempt, on which there was no verdict. It is final, also when it comes
   * before its `attempt`: the answer for this owner is 101 from then on. Without this method the
   * attempt stays counted.
   */
  withdraw?(id: Uint8Array, rememberUntil: number, owner: Uint8Array): unknown;
}
