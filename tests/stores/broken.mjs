// A correct store in a map, and what becomes of it by one mistake each. The conformance kit must find every mistake, and
// only that one.

import { setTimeout as sleep } from "node:timers/promises";

const now = () => Date.now() / 1000;
const hex = (id) => Buffer.from(id).toString("hex");

/** A correct store, whose answers take a moment. */
export class Correct {
  entries = new Map();
  capacity;

  constructor(capacity = Number.POSITIVE_INFINITY) {
    this.capacity = capacity;
  }

  async consume(id, rememberUntil) {
    const entry = this.entry(id, rememberUntil);
    const first = !entry.used;
    entry.used = true;
    await sleep(1);
    return first;
  }

  async attempt(id, rememberUntil) {
    const entry = this.entry(id, rememberUntil);
    entry.tries += 1;
    const { tries } = entry;
    await sleep(1);
    return tries;
  }

  async release(id) {
    const entry = this.entries.get(this.name(id));
    if (entry) {
      entry.used = false;
    }
  }

  entry(id, rememberUntil) {
    this.refuseThePast(rememberUntil);
    const name = this.name(id);
    const found = this.entries.get(name);
    if (found && !this.isOver(found)) {
      found.rememberUntil = Math.max(found.rememberUntil, rememberUntil);
      return found;
    }
    if (!found && this.entries.size >= this.capacity) {
      this.makeRoom();
    }
    const entry = { used: false, tries: 0, rememberUntil };
    this.entries.set(name, entry);
    return entry;
  }

  name(id) {
    return hex(id);
  }

  refuseThePast(rememberUntil) {
    if (rememberUntil <= now()) {
      throw new Error("the time is over");
    }
  }

  isOver({ rememberUntil }) {
    return rememberUntil <= now();
  }

  makeRoom() {
    throw new Error("there is no room");
  }
}

/** Looks whether an id is there, and puts it there afterwards. */
class CheckThenSet extends Correct {
  async consume(id, rememberUntil) {
    this.refuseThePast(rememberUntil);
    const found = this.entries.get(this.name(id));
    const used = Boolean(found?.used) && !this.isOver(found);
    await sleep(1);
    await super.consume(id, rememberUntil);
    return !used;
  }
}

/** Forgets the oldest entry for a new one. */
class EvictWhenFull extends Correct {
  makeRoom() {
    this.entries.delete(this.entries.keys().next().value);
  }
}

/** Lets everybody in while its backend is away. */
class TrueOnError extends Correct {
  async consume(id, rememberUntil) {
    try {
      return await super.consume(id, rememberUntil);
    } catch {
      return rememberUntil > now();
    }
  }
}

/** Never forgets. */
class IgnoresExpiry extends Correct {
  isOver() {
    return false;
  }
}

/** Forgets everything after a little more than a second, whatever it was asked for. */
class ForgetsTooSoon extends Correct {
  entry(id, rememberUntil) {
    this.refuseThePast(rememberUntil);
    const found = this.entries.get(this.name(id));
    return found && !this.isOver(found) ? found : super.entry(id, Math.min(rememberUntil, now() + 1.2));
  }
}

/** Takes whatever was forgotten, or would be at once, for a first use. */
class TrueForThePast extends Correct {
  refuseThePast() {}
}

/** Reads the number, leaves time for a verdict, and counts then. */
class CountAfterVerdict extends Correct {
  async attempt(id, rememberUntil) {
    const entry = this.entry(id, rememberUntil);
    const number = entry.tries + 1;
    await sleep(5);
    entry.tries += 1;
    return number;
  }
}

/** Takes ids for texts. */
class DecodesIds extends Correct {
  name(id) {
    return new TextDecoder().decode(id);
  }
}

/** Counts from the beginning once a token is released. */
class ReleasesTries extends Correct {
  async release(id) {
    this.entries.delete(this.name(id));
  }
}

/** Name, store, and the checks that must fail. A mistake shows where `away` or `small` is asked, too. */
export const BROKEN = [
  { name: "check-then-set", Store: CheckThenSet, failing: ["one-winner"] },
  { name: "evict-when-full", Store: EvictWhenFull, failing: ["full"] },
  { name: "true-on-error", Store: TrueOnError, failing: ["errors", "full"] },
  { name: "ignores-expiry", Store: IgnoresExpiry, failing: ["forgets"] },
  { name: "forgets-too-soon", Store: ForgetsTooSoon, failing: ["remembers", "extends"] },
  { name: "true-for-the-past", Store: TrueForThePast, failing: ["past"] },
  { name: "count-after-verdict", Store: CountAfterVerdict, failing: ["numbers"] },
  { name: "decodes-ids", Store: DecodesIds, failing: ["ids"] },
  { name: "releases-tries", Store: ReleasesTries, failing: ["release"] },
];

/** A store of the class whose backend is away. */
export function away(Store) {
  return new (class extends Store {
    entry() {
      throw new Error("the backend is away");
    }
  })();
}
