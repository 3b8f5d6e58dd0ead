// Links for a guard, and guards that redeem them from a store.

import { recordingStore } from "./stores.mjs";
import { pair, v2Pair } from "./tokens.mjs";

/** The largest clock tolerance that is allowed, and what clocks may differ by besides. */
export const MARGIN = 999 + 300;

/** Links of v2 and v1 that are valid, and guards for them. */
export function sceneOfGuard(subject) {
  const { createVerifier, createGuard, createMemoryStore, vectors, vectors2, options } = subject;
  const { activation, recovery } = v2Pair(vectors2);
  const old = pair(vectors);
  const keys = [activation.key, old.activation.key];
  const clock = () => activation.now;
  const verifier = createVerifier({ keys, clock, ...options });
  const activate = { action: "activate" };
  const recover = { action: "recover", code: recovery.code };
  const wrong = { action: "recover", code: recovery.wrongCode };
  const memory = (capacity = 200) => createMemoryStore({ capacity, clock });
  const failed = new Error("origin is down");
  const fail = () => {
    throw failed;
  };
  const make = (store, more = {}) => createGuard({ verifier, store, ...more });
  /** What makes each kind of store, by its name. */
  const stores = [
    ["memory", memory],
    ["an asynchronous store", recordingStore],
  ];
  return {
    activation,
    recovery,
    old,
    keys,
    clock,
    verifier,
    activate,
    recover,
    wrong,
    memory,
    stores,
    failed,
    fail,
    make,
  };
}
