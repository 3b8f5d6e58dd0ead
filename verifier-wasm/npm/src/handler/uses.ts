// Whether the use of a link is final. The store remembers a use before the application is asked,
// and forgets it where that did nothing. So a link that is used may be in use, by this process or
// another one, and nobody may read that it was used before that is known.

import { type CheckedStore, readStore } from "../guard/checked_store.js";
import type { TokenStore } from "../stores/token_store.js";
import { apart } from "./apart.js";

/** The numbers of these counts (see `apart`). */
const FINAL = 9;
const LOOK = 11;

/**
 * In how many different minutes a link is found in use until it counts as used: the process that
 * used it has ended without a word.
 */
const MOST_MINUTES = 10;

/** For how many seconds at most a call is waited for that marks a use, which only saves minutes. */
const PATIENCE = 1;

/** A link's id, until when its use is remembered, and whatever else the store was told. */
type Use = readonly [id: Uint8Array, until: number, ...more: unknown[]];

/** What all processes that share a store know of uses. */
export class Uses {
  readonly #isFinal: CheckedStore["consume"];
  readonly #markFinal: CheckedStore["release"] | undefined;
  readonly #look: CheckedStore["attempt"];

  /** @param store with own methods that need no `this` */
  constructor(store: TokenStore, timeout: number) {
    const { consume, attempt } = store;
    // Without the methods that are called where an answer is missing: a release is what marks. As
    // patient as a use: with a store that is slower than that, a link would be in use for ever.
    const asking = readStore({ consume, attempt }, timeout);
    this.#isFinal = asking.consume;
    this.#look = asking.attempt;
    this.#markFinal = Object.hasOwn(store, "release")
      ? readStore(store, Math.min(timeout, PATIENCE)).release
      : undefined;
  }

  /**
   * Remembers that a use is final: an owner that was released has no first use any more, whenever
   * it asks. If that fails, the link counts as used some minutes later.
   */
  async mark(...[id, until]: Use): Promise<void> {
    const mark = apart(id, FINAL);
    await this.#markFinal?.(mark, until, mark);
  }

  /** Whether a link that is used was used, and is not in use. */
  async isFinal(...[id, until]: Use): Promise<boolean> {
    // Nothing gives a use back.
    if (this.#markFinal === undefined) return true;
    const mark = apart(id, FINAL);
    const isOpen = await this.#isFinal(mark, until, mark);
    if (!isOpen.ok) return false;
    if (!isOpen.answer) return true;
    const minute = Math.floor(Date.now() / 60_000);
    const owner = id.map((byte, place) => byte ^ (minute >>> (8 * place)));
    const looked = await this.#look?.(apart(id, LOOK), until, owner);
    return looked?.ok === true && looked.answer > MOST_MINUTES;
  }
}
