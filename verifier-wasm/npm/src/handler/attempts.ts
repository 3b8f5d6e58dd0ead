import type { CheckedStore } from "../guard/checked_store.js";
import type { TokenStore } from "../stores/token_store.js";
import { isTakenBack } from "./apart.js";
import { NOT_WRONG, type Reason } from "./asking.js";

type Asked = Parameters<TokenStore["consume"]>;

/**
 * Remembers what one request has asked the store. An attempt is withdrawn where nobody has called
 * its code wrong. The guard does that only where there was no verdict at all; here it is known that
 * a right code met a database that is away, which must lock nobody out.
 */
export class Attempts {
  /** What the guard is given. */
  readonly store: TokenStore;
  readonly #checked: CheckedStore;
  #taken: Asked | undefined;
  #used: Asked | undefined;

  /** @param store with own methods that need no `this`; @param checked the same, with a timeout */
  constructor(store: TokenStore, checked: CheckedStore) {
    this.#checked = checked;
    const { consume, attempt } = store;
    this.store = {
      ...store,
      // Each is remembered before the answer, which may be lost.
      consume: (...given) => {
        this.#used = given;
        return consume(...given);
      },
    };
    // Of what is inherited from all objects nothing is a method of the store.
    if (!Object.hasOwn(store, "attempt")) return;
    this.store.attempt = (...given) => {
      this.#taken = given;
      return (attempt as Required<TokenStore>["attempt"])(...given);
    };
  }

  /** What the store was asked to mark as used, and until when. */
  get used(): Asked | undefined {
    return this.#used;
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
