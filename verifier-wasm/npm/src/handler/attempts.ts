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

  constructor(store: TokenStore, withdraw: CheckedStore["withdraw"]) {
    this.#withdraw = withdraw;
    const counted: TokenStore = {
      consume: (...given) => store.consume(...given),
      ...(store.release && { release: (...given) => store.release?.(...given) }),
      ...(store.withdraw && { withdraw: (...given) => store.withdraw?.(...given) }),
    };
    this.store = store.attempt
      ? {
          ...counted,
          attempt: (...given) => {
            // Before the answer, which may be lost.
            this.#taken = given;
            return (store as Required<TokenStore>).attempt(...given);
          },
        }
      : counted;
  }

  /** One that cannot be withdrawn stays counted. */
  async withdraw(): Promise<void> {
    if (this.#taken) await this.#withdraw(...this.#taken);
  }
}
