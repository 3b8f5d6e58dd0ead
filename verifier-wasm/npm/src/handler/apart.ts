// What a store counts beside the tries and the use of a link, under ids that no row has.

import type { CheckedStore } from "../checked_store.js";
import { newOwner } from "../guard.js";
import type { Reason } from "./asking.js";
import { type Outcome, outcomeOf } from "./judgement.js";

/**
 * The number of a count: tries of other browsers are counted under 0, and by visitor under 1 and 2.
 */
const GATE = 9;
const AGAIN = 10;

/**
 * How often the application may take back an attempt of a link, by saying that a field is not
 * right.
 */
const MOST_AGAIN = 20;

/** An id that no row has. */
export function apart(id: Uint8Array, count: number): Uint8Array {
  return id.map((byte) => byte ^ (255 - count));
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
  const gate = apart(id, GATE);
  const owner = newOwner();
  const entered = await consume(gate, until, owner);
  // Whether the one that is inside uses the link is not known yet.
  if (!entered.ok || !entered.answer) return outcomeOf("in_progress");
  try {
    return await work();
  } finally {
    await release(gate, until, owner);
  }
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
