// What the database could not do, and whether it may have done it all the same: the person is told
// which of the two.

import { Unavailable } from "../service/server.ts";

const AWAY = "The database does not answer. Nothing was changed; try again in a moment.";
const BUSY = "The database cannot do this now. Nothing was changed; try again in a moment.";
const UNKNOWN =
  "The database did not answer in time. It is not known whether this was done; " +
  "try again in a moment.";

/**
 * What a server says of a statement that it has ended and rolled back, by the beginning of the code
 * (PostgreSQL's appendix A): conflicts, missing resources, locks, `statement_timeout` and
 * cancellation, faults of its machine, and a server that has become a replica.
 */
const ROLLED_BACK = /^(40|53|55|57014|58|25006)/;

/** A server that goes away says so, or says nothing. */
const GOING_AWAY = /^(08|57P)/;

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
  if (ROLLED_BACK.test(code))
    return { told: new Unavailable(BUSY, { code: "MAILROOM_AWAY" }), broken: false };
  if (/^[0-9A-Z]{5}$/.test(code) && !GOING_AWAY.test(code)) return undefined;
  // The question was sent, and an answer may have been lost on its way.
  return { told: new Unavailable(UNKNOWN), broken: true };
}
