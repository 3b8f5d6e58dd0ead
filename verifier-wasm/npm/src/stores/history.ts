// What a token's entry is, told by the operations on it in their order: for databases that can
// append to a list and return it in one step, but cannot run the rules.

import { described } from "../arguments/described.js";
import { StoreFullError, StoreUnavailableError } from "../errors/errors.js";
import { type Entry, freshEntry, isSame, OPERATIONS, type Operation } from "./entry.js";

/** How many operations on one token are kept. */
export const MOST_EVENTS = 400;

/** How long an event is, in characters. */
export const EVENT_LENGTH = 33;

const KINDS: Readonly<Record<string, Operation>> = {
  c: "consume",
  r: "release",
  a: "attempt",
  w: "withdraw",
};

/** An operation as text: the first letter of its name, and its owner in 32 hexadecimal digits. */
export function eventOf(what: Operation, owner: string): string {
  return what.charAt(0) + owner;
}

/**
 * The answer to the event that was to be appended. Of a history that is full it is not the last
 * one, and is answered if it changes nothing.
 */
export function answerOf(history: readonly unknown[], event: string): string {
  const entry = freshEntry(0);
  let answer = "";
  for (const past of history) answer = apply(entry, past);
  if (history.at(-1) === event) return answer;
  const before = { ...entry };
  answer = apply(entry, event);
  if (isSame(before, entry)) return answer;
  throw new StoreFullError(
    `${MOST_EVENTS} operations on this link are remembered: no further one changes anything`,
  );
}

function apply(entry: Entry, event: unknown): string {
  const [, kind, owner] =
    /^([craw])([0-9a-f]{32})$/.exec(typeof event === "string" ? event : "") ?? [];
  const what = KINDS[kind ?? ""];
  if (what && owner) return OPERATIONS[what](entry, owner);
  throw new StoreUnavailableError(
    `the database keeps ${described(event)} as an operation on a link`,
  );
}
