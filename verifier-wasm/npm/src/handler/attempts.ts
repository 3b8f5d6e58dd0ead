import type { CheckedStore } from "../guard/checked_store.js";
import type { TokenStore } from "../stores/token_store.js";
import { isTakenBack } from "./apart.js";
import { NOT_WRONG, type Reason } from "./asking.js";

type Attempt = Parameters<Required<TokenStore>["attempt"]>;

/**
 * Remembers the attempt of one request, to withdraw it where nobody has called its code wrong. The
 * guard does that only where there was no verdict at all; here it is known that a right code met a
 * database that is away, which must lock nobody out.
 */
export class Attempts {
  /** What the guard is given. */
  readonly store: TokenStore;
  readonly #checked: CheckedStore;
  #taken: Attempt | undefined;

  /** @param store with own methods that need no `this`; @param checked the same, with a timeout */
  constructor(store: TokenStore, checked: CheckedStore) {
    this.#checked = checked;
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

  /**
   * Withdraws the attempt if nobody has called its code wrong. One that cannot be withdrawn stays
   * counted.
   */
  async settle(reason: Reason | undefined): Promise<void> {
    if (!this.#taken || reason === undefined) return;
    const isWrong = !NOT_WRONG.includes(reason);
    if (isWrong && !(await isTakenBack(this.#checked, ...this.#taken, reason))) return;
    await this.#checked.withdraw(...this.#taken);
  }
}
