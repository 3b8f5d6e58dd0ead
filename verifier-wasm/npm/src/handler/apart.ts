// What a store counts beside the tries and the use of a link, under ids that no row has.

import type { CheckedStore } from "../guard/checked_store.js";
import type { Reason } from "./asking.js";

/**
 * The number of a count: tries of other browsers are counted under 0, and by visitor under 1 and 2,
 * and what is known of its use under 9 and 11.
 */
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
