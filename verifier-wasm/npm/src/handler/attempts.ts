import type { CheckedStore } from "../checked_store.js";
import type { TokenStore } from "../token_store.js";

type Attempt = Parameters<Required<TokenStore>["attempt"]>;

/**
 * Remembers the attempt of one request, to withdraw it where nobody has called its code wrong. The guard does that only
 * where there was no verdict at all; here it is known that a right code met a database that is away, which must lock
 * nobody out.
 */
export class Attempts {
  /** What the guard is given. */
  readonly store: TokenStore;
  readonly #withdraw: CheckedStore["withdraw"];
  #taken: Attempt | undefined;

  /** @param store with own methods that need no `this` */
  constructor(store: TokenStore, withdraw: CheckedStore["withdraw"]) {
    this.#withdraw = withdraw;
    const { attempt } = store;
    // Of what is inherited from all objects nothing is a method of the store.
    this.store = Object.hasOwn(store, "attempt")
      ? {
          ...store,
          attempt: (...given) => {
            // Before the answer, which may be lost.
            this.#taken = given;
            return (attempt as Required<TokenStore>["attempt"])(...given);
          },
        }
      : store;
  }

  /** One that cannot be withdrawn stays counted. */
  async withdraw(): Promise<void> {
    if (this.#taken) await this.#withdraw(...this.#taken);
  }
}
