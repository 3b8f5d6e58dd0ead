// A correct store in a map, and what becomes of it by one mistake each. The conformance kit must
// find every mistake, and only that one.

import { setTimeout as sleep } from "node:timers/promises";

const now = () => Date.now() / 1000;
const hex = (id) => Buffer.from(id).toString("hex");

/** How many owners are remembered of each kind. */
const MOST = 100;

/**
 * Whether a check looks at this time: mistakes with it must not show in checks
 * that merely take long.
 */
const isShort = (rememberUntil) => rememberUntil < now() + 60;

/** A correct store, whose answers take a moment. */
export class Correct {
  entries = new Map();
  capacity;

  constructor(capacity = Number.POSITIVE_INFINITY) {
    this.capacity = capacity;
  }

  async consume(id, rememberUntil, owner) {
    const entry = this.entry(id, rememberUntil);
    const name = hex(owner);
    if (entry.holder === undefined && !entry.owners.has(name)) {
      this.add(entry.owners, name);
      entry.holder = name;
    }
    const first = entry.holder === name;
    await sleep(1);
    return first;
  }

  async release(id, rememberUntil, owner) {
    const entry = this.entry(id, rememberUntil);
    this.add(entry.owners, hex(owner));
    if (entry.holder === hex(owner)) {
      entry.holder = undefined;
    }
  }

  async attempt(id, rememberUntil, owner) {
    const number = this.number(this.entry(id, rememberUntil).tries, hex(owner));
    await sleep(1);
    return number;
  }

  async withdraw(id, rememberUntil, owner) {
    const { tries } = this.entry(id, rememberUntil);
    if (tries.has(hex(owner)) || tries.size < MOST) {
      tries.set(hex(owner), 0);
    }
  }

  /** Adds an owner, whose repeats get nothing from now on. */
  add(owners, name) {
    if (!owners.has(name) && owners.size >= MOST) {
      throw new Error("there is no room for another owner");
    }
    owners.add(name);
  }

  number(tries, name) {
    if (!tries.has(name) && tries.size < MOST) {
      tries.set(name, [...tries.values()].filter((number) => number > 0).length + 1);
    }
    return tries.get(name) || MOST + 1;
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
    const entry = { holder: undefined, owners: new Set(), tries: new Map(), rememberUntil };
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
  async consume(id, rememberUntil, owner) {
    this.refuseThePast(rememberUntil);
    const found = this.entries.get(this.name(id));
    const free =
      !found || this.isOver(found) || (found.holder === undefined && !found.owners.has(hex(owner)));
    await sleep(1);
    return (await super.consume(id, rememberUntil, owner)) || free;
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
  async consume(id, rememberUntil, owner) {
    try {
      return await super.consume(id, rememberUntil, owner);
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

/**
 * Forgets after a little more than a second what it was to remember for three, and never remembers
 * longer than at first.
 */
class ForgetsTooSoon extends Correct {
  entry(id, rememberUntil) {
    this.refuseThePast(rememberUntil);
    const found = this.entries.get(this.name(id));
    if (found && !this.isOver(found)) return found;
    return super.entry(
      id,
      isShort(rememberUntil) ? Math.min(rememberUntil, now() + 1.2) : rememberUntil,
    );
  }
}

/** Takes whatever was forgotten, or would be at once, for a first use. */
class TrueForThePast extends Correct {
  refuseThePast() {}
}

/** Reads the number, leaves time for a verdict, and counts then. */
class CountAfterVerdict extends Correct {
  async attempt(id, rememberUntil, owner) {
    const { tries } = this.entry(id, rememberUntil);
    const number = this.number(new Map(tries), hex(owner));
    await sleep(5);
    this.number(tries, hex(owner));
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
  async release(id, rememberUntil, owner) {
    await super.release(id, rememberUntil, owner);
    this.entry(id, rememberUntil).tries.clear();
  }
}

/** Takes a consume that is sent again for one of somebody else. */
class DeniesRepeats extends Correct {
  async consume(id, rememberUntil, owner) {
    const used = this.entry(id, rememberUntil).holder !== undefined;
    return (await super.consume(id, rememberUntil, owner)) && !used;
  }
}

/** Counts a try once more when its command is sent again. */
class CountsRepeats extends Correct {
  async attempt(id, rememberUntil, owner) {
    const { tries } = this.entry(id, rememberUntil);
    const name =
      tries.get(hex(owner)) === 0 ? hex(owner) : hex(crypto.getRandomValues(new Uint8Array(16)));
    const number = this.number(tries, name);
    await sleep(1);
    return number;
  }
}

/** Compares no more of an owner than its first bytes. */
class CutsOwners extends Correct {
  consume(id, rememberUntil, owner) {
    return super.consume(id, rememberUntil, owner.subarray(0, 8));
  }
  release(id, rememberUntil, owner) {
    return super.release(id, rememberUntil, owner.subarray(0, 8));
  }
}

/** Ends a use, whosever it is. */
class ReleasesOthers extends Correct {
  async release(id, rememberUntil, owner) {
    await super.release(id, rememberUntil, owner);
    this.entry(id, rememberUntil).holder = undefined;
  }
}

/** Ends a use and forgets who had it: what comes late begins another one. */
class RevivesReleased extends Correct {
  async release(id, rememberUntil, owner) {
    const entry = this.entry(id, rememberUntil);
    if (entry.holder === hex(owner)) {
      entry.holder = undefined;
      entry.owners.delete(hex(owner));
    } else {
      entry.owners.add(hex(owner));
    }
  }
}

/** Ends no use that is still to come. */
class ForgetsEarlyReleases extends Correct {
  async release(id, rememberUntil, owner) {
    const entry = this.entry(id, rememberUntil);
    if (entry.holder === hex(owner)) {
      entry.holder = undefined;
    }
  }
}

/** Forgets the oldest of the released owners for another one. */
class EvictsOwners extends Correct {
  add(owners, name) {
    if (owners.size >= MOST) {
      owners.delete(owners.keys().next().value);
    }
    owners.add(name);
  }
}

/** Forgets after a second who was released, not who has the use. */
class ForgetsReleasesTooSoon extends Correct {
  async release(id, rememberUntil, owner) {
    await super.release(id, rememberUntil, owner);
    const { owners } = this.entry(id, rememberUntil);
    // The owner is only lent.
    if (isShort(rememberUntil)) setTimeout((name) => owners.delete(name), 1200, hex(owner)).unref();
  }
}

/** Takes the latest try back, whosever it is. */
class WithdrawsOthers extends Correct {
  async withdraw(id, rememberUntil) {
    const { tries } = this.entry(id, rememberUntil);
    const [latest] = [...tries.keys()].slice(-1);
    await super.withdraw(id, rememberUntil, Buffer.from(latest ?? "", "hex"));
  }
}

/** Counts down, and takes a try that comes late for another one. */
class RevivesWithdrawn extends Correct {
  async withdraw(id, rememberUntil, owner) {
    const { tries } = this.entry(id, rememberUntil);
    if (tries.has(hex(owner))) {
      tries.delete(hex(owner));
    } else {
      await super.withdraw(id, rememberUntil, owner);
    }
  }
}

/** Takes no try back that is still to come. */
class ForgetsEarlyWithdrawals extends Correct {
  async withdraw(id, rememberUntil, owner) {
    if (this.entry(id, rememberUntil).tries.has(hex(owner))) {
      await super.withdraw(id, rememberUntil, owner);
    }
  }
}

/** Forgets after a second that a try was taken back. */
class ForgetsWithdrawalsTooSoon extends Correct {
  async withdraw(id, rememberUntil, owner) {
    await super.withdraw(id, rememberUntil, owner);
    const { tries } = this.entry(id, rememberUntil);
    // The owner is only lent.
    if (isShort(rememberUntil)) setTimeout((name) => tries.delete(name), 1200, hex(owner)).unref();
  }
}

/** Bounds the tries that stand, and remembers any number of others. */
class BoundsStandingTries extends Correct {
  number(tries, name) {
    const standing = [...tries.values()].filter((number) => number > 0).length;
    if (!tries.has(name) && standing < MOST) {
      tries.set(name, standing + 1);
    }
    return tries.get(name) || MOST + 1;
  }
}

/**
 * Name, store, and the checks that must fail. A mistake shows where `away`
 * or `small` is asked, too.
 */
export const BROKEN = [
  { name: "check-then-set", Store: CheckThenSet, failing: ["one-winner"] },
  { name: "evict-when-full", Store: EvictWhenFull, failing: ["full"] },
  { name: "true-on-error", Store: TrueOnError, failing: ["errors", "full"] },
  { name: "ignores-expiry", Store: IgnoresExpiry, failing: ["forgets"] },
  { name: "forgets-too-soon", Store: ForgetsTooSoon, failing: ["remembers", "extends"] },
  { name: "true-for-the-past", Store: TrueForThePast, failing: ["past"] },
  {
    name: "count-after-verdict",
    Store: CountAfterVerdict,
    failing: ["numbers", "tries-are-bounded"],
  },
  { name: "decodes-ids", Store: DecodesIds, failing: ["ids"] },
  { name: "releases-tries", Store: ReleasesTries, failing: ["release"] },
  { name: "denies-repeats", Store: DeniesRepeats, failing: ["repeats"] },
  {
    name: "counts-repeats",
    Store: CountsRepeats,
    failing: ["repeats", "withdraw", "tries-are-bounded"],
  },
  { name: "cuts-owners", Store: CutsOwners, failing: ["repeats"] },
  { name: "releases-others", Store: ReleasesOthers, failing: ["release"] },
  { name: "revives-released", Store: RevivesReleased, failing: ["release", "bounds"] },
  {
    name: "forgets-early-releases",
    Store: ForgetsEarlyReleases,
    failing: ["release", "bounds", "remembers"],
  },
  { name: "evicts-owners", Store: EvictsOwners, failing: ["bounds"] },
  { name: "forgets-releases-too-soon", Store: ForgetsReleasesTooSoon, failing: ["remembers"] },
  {
    name: "withdraws-others",
    Store: WithdrawsOthers,
    failing: ["withdraw", "tries-are-bounded", "remembers"],
  },
  {
    name: "revives-withdrawn",
    Store: RevivesWithdrawn,
    failing: ["withdraw", "tries-are-bounded"],
  },
  {
    name: "forgets-early-withdrawals",
    Store: ForgetsEarlyWithdrawals,
    failing: ["withdraw", "remembers"],
  },
  {
    name: "forgets-withdrawals-too-soon",
    Store: ForgetsWithdrawalsTooSoon,
    failing: ["remembers"],
  },
  { name: "bounds-standing-tries", Store: BoundsStandingTries, failing: ["tries-are-bounded"] },
];

/** A store of the class whose backend is away. */
export function away(Store) {
  return new (class extends Store {
    entry() {
      throw new Error("the backend is away");
    }
  })();
}
