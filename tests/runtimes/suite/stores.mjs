// Stores for tests of the guard: each really is one, and writes down what it was asked.

import { hex } from "./tokens.mjs";

/** An asynchronous store in a map, whose answers come in a later turn. */
export function recordingStore() {
  const used = new Set();
  const tries = new Map();
  const calls = [];
  const asked = async (method, id, until) => {
    const name = hex(id);
    calls.push({ method, id, name, until });
    // Not by a timer: workerd gives a request 10,000 of them, and the guard has one for each call.
    for (let turn = 0; turn < 10; turn += 1) {
      await undefined;
    }
    return name;
  };
  return {
    calls,
    methods: () => calls.map(({ method }) => method).join(" "),
    async consume(id, until) {
      const name = await asked("consume", id, until);
      return !used.has(name) && Boolean(used.add(name));
    },
    async attempt(id, until) {
      const name = await asked("attempt", id, until);
      const number = (tries.get(name) ?? 0) + 1;
      tries.set(name, number);
      return number;
    },
    async release(id) {
      used.delete(await asked("release", id));
    },
  };
}

/** A store that must not be asked. */
export function untouchedStore() {
  const asked = (method) => () => {
    throw new Error(`the store was asked to ${method}`);
  };
  return { consume: asked("consume"), attempt: asked("attempt"), release: asked("release") };
}
