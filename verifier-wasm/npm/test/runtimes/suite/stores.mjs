// Stores for tests of the guard: each really is one, and writes down what it was asked.

import { hex } from "./tokens.mjs";

/** How many owners a store remembers of a link. */
const MOST = 100;

/** An asynchronous store in a map, whose answers come in a later turn. */
export function recordingStore() {
  const links = new Map();
  const calls = [];
  const asked = async (method, id, until, owner) => {
    const name = hex(id);
    const by = hex(owner);
    calls.push({ method, id, name, until, owner, by });
    // Not by a timer: workerd gives a request 10,000 of them, and the guard has one for each call.
    for (let turn = 0; turn < 10; turn += 1) {
      await undefined;
    }
    if (!links.has(name))
      links.set(name, { holder: undefined, owners: new Set(), tries: new Map() });
    return { by, link: links.get(name) };
  };
  return {
    calls,
    methods: () => calls.map(({ method }) => method).join(" "),
    async consume(id, until, owner) {
      const { by, link } = await asked("consume", id, until, owner);
      if (link.holder === undefined && !link.owners.has(by)) link.holder = by;
      link.owners.add(by);
      return link.holder === by;
    },
    async attempt(id, until, owner) {
      const { by, link } = await asked("attempt", id, until, owner);
      if (!link.tries.has(by) && link.tries.size < MOST) {
        link.tries.set(by, [...link.tries.values()].filter(Boolean).length + 1);
      }
      return link.tries.get(by) || MOST + 1;
    },
    async release(id, until, owner) {
      const { by, link } = await asked("release", id, until, owner);
      link.owners.add(by);
      if (link.holder === by) link.holder = undefined;
    },
    async withdraw(id, until, owner) {
      const { by, link } = await asked("withdraw", id, until, owner);
      link.tries.set(by, 0);
    },
  };
}

/** A store that must not be asked. */
export function untouchedStore() {
  const asked = (method) => () => {
    throw new Error(`the store was asked to ${method}`);
  };
  return {
    consume: asked("consume"),
    attempt: asked("attempt"),
    release: asked("release"),
    withdraw: asked("withdraw"),
  };
}
