// What the rules of a store do to one token's entry, for stores whose backends cannot run them.

import { described } from "../arguments/described.js";
import { StoreUnavailableError } from "../errors/errors.js";
import { demanding, tooLate, tooManyOwners } from "./base.js";
import type { TokenStore } from "./token_store.js";

/** How many owners are remembered of each kind, and what stands for more. */
const MOST = 100;

/** The answers that are errors. */
export const [TOO_LATE, FULL] = ["too late", "full"];

/** What is remembered of one token. Owners are in hexadecimal. */
export interface Entry {
  /** The owner that has the use. */
  holder: string | undefined;
  /** Owners that have or had the use, or were released before it. */
  owners: readonly string[];
  /** The number of each owner's attempt, 0 if it was withdrawn. */
  tries: ReadonlyMap<string, number>;
  /** Seconds since the Unix epoch. */
  rememberUntil: number;
}

export type Operation = "consume" | "release" | "attempt" | "withdraw";

/**
 * Each operation changes an entry and returns the answer. A property that changes gets a new value.
 */
export const OPERATIONS: Readonly<Record<Operation, (entry: Entry, owner: string) => string>> = {
  consume(entry, owner) {
    if (entry.holder === undefined && !entry.owners.includes(owner)) {
      if (entry.owners.length >= MOST) return FULL;
      entry.owners = [...entry.owners, owner];
      entry.holder = owner;
    }
    return String(entry.holder === owner);
  },
  release(entry, owner) {
    if (entry.holder === owner) entry.holder = undefined;
    // Where there are so many, a consume of this owner gets nothing either.
    else if (!entry.owners.includes(owner) && entry.owners.length < MOST) {
      entry.owners = [...entry.owners, owner];
    }
    return "released";
  },
  attempt(entry, owner) {
    const { tries } = entry;
    let number = tries.get(owner);
    if (number === undefined && tries.size < MOST) {
      number = [...tries.values()].filter((other) => other > 0).length + 1;
      entry.tries = new Map([...tries, [owner, number]]);
    }
    return String(number || MOST + 1);
  },
  withdraw(entry, owner) {
    const { tries } = entry;
    const isStanding = tries.get(owner) !== 0 && (tries.has(owner) || tries.size < MOST);
    if (isStanding) entry.tries = new Map([...tries, [owner, 0]]);
    return "withdrawn";
  },
};

/** An entry that remembers nothing. */
export function freshEntry(rememberUntil: number): Entry {
  return { holder: undefined, owners: [], tries: new Map(), rememberUntil };
}

/** Whether an operation left all of an entry as it was. */
export function isSame(one: Entry, other: Entry): boolean {
  return (Object.keys(one) as (keyof Entry)[]).every((name) => one[name] === other[name]);
}

/** Whether an operation ends what another one began, which it does also when its time is over. */
export function isEnd(what: Operation): boolean {
  return what === "release" || what === "withdraw";
}

/**
 * What an operation on the entry that was found answers,
 * and the entry that is to replace it, if any.
 */
export function change(
  found: Entry | undefined,
  what: Operation,
  rememberUntil: number,
  owner: string,
  now: number,
): { readonly answer: string; readonly entry?: Entry } {
  const live = found !== undefined && found.rememberUntil > now;
  if (rememberUntil <= now) {
    if (!isEnd(what)) return { answer: TOO_LATE };
    // Nothing that could be ended, and nothing that could still come.
    if (!live) return { answer: "over" };
  }
  const entry = live ? { ...found } : freshEntry(rememberUntil);
  entry.rememberUntil = Math.max(entry.rememberUntil, rememberUntil);
  return { answer: OPERATIONS[what](entry, owner), entry };
}

/**
 * The store whose operations are answered as by {@link OPERATIONS}; the hint is for other answers.
 */
export function answering(
  ask: (
    what: Operation,
    id: Uint8Array,
    rememberUntil: number,
    owner: Uint8Array,
  ) => Promise<string>,
  hint = "",
): Required<TokenStore> {
  async function asked(...given: Parameters<typeof ask>): Promise<string> {
    const answer = await ask(...given);
    if (answer === TOO_LATE) throw tooLate();
    if (answer === FULL) throw tooManyOwners();
    return answer;
  }

  return demanding({
    async consume(...given) {
      const answer = await asked("consume", ...given);
      if (answer === "true") return true;
      if (answer === "false") return false;
      throw new StoreUnavailableError(`the store answered with ${described(answer)}${hint}`);
    },
    async release(...given) {
      await asked("release", ...given);
    },
    async attempt(...given) {
      return Number(await asked("attempt", ...given));
    },
    async withdraw(...given) {
      await asked("withdraw", ...given);
    },
  });
}
