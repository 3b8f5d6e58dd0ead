// Takes back the try of a code that nobody has called wrong.
//
// The guard takes a try back only where there was no verdict at all. Here more is known: what
// became of a code that the edge took for right. If the origin was away, nobody has learnt that a
// code is wrong, and five presses during an outage must not lock anybody out.

import type { TokenStore } from "mailroom-verifier/conformance";

/** How long the store is waited for, in milliseconds: as long as the guard waits. */
const TIMEOUTS = { attempt: 5_000, withdraw: 5_000 };

/** Keeps what was begun going after whoever asked has hung up, or the answer was sent. */
export type KeepAlive = (work: Promise<unknown>) => void;

type Try = Parameters<Required<TokenStore>["attempt"]>;

/** The tries of one request, which makes one at most. */
export class Tries {
  readonly #store: Required<TokenStore>;
  readonly #keepAlive: KeepAlive;
  #taken: Try | undefined;

  constructor(store: Required<TokenStore>, keepAlive: KeepAlive) {
    this.#store = store;
    this.#keepAlive = keepAlive;
  }

  /** As the method of the store. */
  async attempt(...taken: Try): Promise<number> {
    // Noted first: one whose answer is lost can be taken back all the same.
    this.#taken = taken;
    return await within(TIMEOUTS.attempt, Promise.resolve(this.#store.attempt(...taken)));
  }

  /**
   * Takes the try back. Returns whether it does not count;
   * one of which that is not known in time may.
   */
  async takeBack(): Promise<boolean> {
    if (this.#taken === undefined) return true;
    const takenBack = Promise.resolve(this.#store.withdraw(...this.#taken)).then(
      () => true,
      () => false,
    );
    // Whoever pressed waits no longer than this; the try is taken back all the same, if the store
    // answers in the end.
    this.#keepAlive(takenBack);
    return within(TIMEOUTS.withdraw, takenBack).catch(() => false);
  }
}

async function within<Value>(timeout: number, answer: Promise<Value>): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | null = null;
  const tooLate = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error("the store of used tokens did not answer in time")),
      timeout,
    );
  });
  try {
    return await Promise.race([answer, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
