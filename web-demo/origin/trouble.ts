// What the database could not do, and whether it may have done it all the same: the person is told
// which of the two.

import { Unavailable } from "../service/server.ts";

const AWAY = "The database does not answer. Nothing was changed; try again in a moment.";
const BUSY = "The database cannot do this now. Nothing was changed; try again in a moment.";
const UNANSWERED =
  "The database did not answer in time. It is not known whether this was done; " +
  "try again in a moment.";

// What errors mean, of crates/connect/src/sqlstate.rs; its documentation says how they are written.
const UNDONE = /^(?:08001|08004|25006|40000|40001|40002|40P01|53|55006|55P03|57014|57P03)/;
const UNKNOWN = /^(?:08|40003|57P01|57P02|57P05|58)/;

/** No connection was had, so nothing was asked. */
export function unreachable(): Unavailable {
  return new Unavailable(AWAY, { code: "MAILROOM_AWAY" });
}

/**
 * What to make of an error of a query; nothing if it is an answer, and so a fault of this program.
 */
export function troubleOf(
  error: unknown,
): { readonly told: Unavailable; readonly broken: boolean } | undefined {
  const { code = "" } = error as { code?: string };
  if (UNDONE.test(code))
    return { told: new Unavailable(BUSY, { code: "MAILROOM_AWAY" }), broken: false };
  if (/^[0-9A-Z]{5}$/.test(code) && !UNKNOWN.test(code)) return undefined;
  // The question was sent, and an answer may have been lost on its way.
  return { told: new Unavailable(UNANSWERED), broken: true };
}
