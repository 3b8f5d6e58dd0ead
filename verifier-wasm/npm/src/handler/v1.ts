// Recoveries of v1. What a signature would say of one shows whether the code was right, and nothing
// can be counted before it: so the handler checks none, and stores nothing. The database judges
// link and code, and counts.

import { bytesIn } from "../token/binary.js";
import type { VerifiedToken } from "../token/token.js";
import { asked, linkOf, type Press, type Redeem } from "./asking.js";
import { outcomeOf } from "./judgement.js";
import type { Outcome } from "./outcomes.js";

/** How many digits the code of a recovery has. */
export const V1_DIGITS = 5;

/** What is asked of the operator where nobody counts. */
export const UNCOUNTED =
  "a recovery of v1 came, whose codes only the database can count: if redeem asks " +
  "mailroom.redeem, which counts them, say countsAttempts: true; or let the collector sign v2";

/** Asks the application about a recovery of v1, of which nothing is proven. */
export async function redeemV1(
  press: Press,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const { code } = press;
  if (code === undefined) return outcomeOf("ERR_CODE_REQUIRED");
  if (code.length !== V1_DIGITS || !/^[0-9]+$/.test(code)) return outcomeOf("ERR_CODE_MALFORMED");
  return (await asked(redeem, linkOf(press, await partsOf(press), false), report)).outcome;
}

/** What a guard would have proven (token-format.md, "Version 1"). */
async function partsOf({ token, action }: Press): Promise<Parameters<typeof linkOf>[1]> {
  const secret = bytesIn(token).slice(0, 32);
  const hashed = new Uint8Array([...new TextEncoder().encode("mailroom/consumed\0"), ...secret]);
  const consumedId = new Uint8Array(await crypto.subtle.digest("SHA-256", hashed)).slice(0, 16);
  return {
    action,
    get secret() {
      return secret.slice();
    },
    get consumedId() {
      return consumedId.slice();
    },
    expiresAt: undefined,
    browser: "unbound" as VerifiedToken<string>["browser"],
  };
}
