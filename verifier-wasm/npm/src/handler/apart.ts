// What a store counts beside the tries and the use of a link, under ids that no row has.

import type { CheckedStore } from "../guard/checked_store.js";
import { newOwner } from "../guard/guard.js";
import type { Reason } from "./asking.js";
import { type Outcome, outcomeOf } from "./judgement.js";

/**
 * The number of a count: tries of other browsers are counted under 0, and by visitor under 1 and 2.
 */
const GATE = 9;
const AGAIN = 10;
const LOOK = 11;

/**
 * How often the application may take back an attempt of a link, by saying that a field is not
 * right.
 */
const MOST_AGAIN = 20;

/**
 * For how many seconds at least a gate stays closed that nobody opens, as after the end of a
 * process: longer than an application takes to answer, and not so long that a visitor gives up. At
 * most it stays closed for twice as long.
 */
const GATE_PERIOD = 60;

/** How often it is looked whether a link that is used is in use. */
const MOST_LOOKS = 50;

/** An id that no row has. */
export function apart(id: Uint8Array, count: number): Uint8Array {
  return id.map((byte) => byte ^ (255 - count));
}

/** The gate of a link in a period. */
function gateOf(id: Uint8Array, period: number): Uint8Array {
  return apart(id, GATE).map((byte, place) => (place < 4 ? byte ^ (period >>> (8 * place)) : byte));
}

/**
 * Lets one use of a bound link begin at a time where that may end as none: the use of another
 * browser, whose digits the database judges, looks like any other to the browser that asked.
 */
export async function alone(
  { consume, release }: CheckedStore,
  id: Uint8Array,
  until: number,
  work: () => Promise<Outcome>,
): Promise<Outcome> {
  const period = Math.floor(Date.now() / 1_000 / GATE_PERIOD);
  const owner = newOwner();
  const closed: Uint8Array[] = [];
  try {
    // Who comes in the next period meets a gate as well. After that nobody does, even if the
    // process has ended inside.
    for (const gate of [gateOf(id, period), gateOf(id, period + 1)]) {
      const entered = await consume(gate, until, owner);
      // Whether the one that is inside uses the link is not known yet.
      if (!entered.ok || !entered.answer) return outcomeOf("in_progress");
      closed.push(gate);
    }
    return await work();
  } finally {
    for (const gate of closed) await release(gate, until, owner);
  }
}

/** Whether a used link may be looked at once more, whether it is in use: each look takes room. */
export async function mayLook(
  { attempt }: CheckedStore,
  id: Uint8Array,
  until: number,
): Promise<boolean> {
  const looked = await attempt?.(apart(id, LOOK), until, newOwner());
  return looked !== undefined && (!looked.ok || looked.answer <= MOST_LOOKS);
}

/** Whether an attempt is taken back that the application answered so. */
export async function isTakenBack(
  { attempt }: CheckedStore,
  id: Uint8Array,
  until: number,
  owner: Uint8Array,
  reason: Reason,
): Promise<boolean> {
  if (reason !== "again" || !attempt) return false;
  const counted = await attempt(apart(id, AGAIN), until, owner);
  return counted.ok && counted.answer <= MOST_AGAIN;
}
