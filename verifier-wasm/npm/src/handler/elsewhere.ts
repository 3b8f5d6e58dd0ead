// A bound link in another browser than that which asked for it. Only the digits that the first
// browser shows prove the person there, beside the code of the action where it has one. The
// database judges both together. Whatever is tried there costs the browser that asked none of its
// tries; while it is judged, the link is in use.

import type { RefusedRedemption } from "../errors/denial.js";
import { errorOf, GuardUnsupportedError } from "../errors/errors.js";
import type { CheckedStore } from "../guard/checked_store.js";
import { newOwner, REMEMBERED_AFTER } from "../guard/guard.js";
import { hasCodeTag } from "../token/version.js";
import type { VerifiedLink } from "../verifier/link.js";
import { apart, isTakenBack } from "./apart.js";
import {
  asked,
  linkOf,
  NOT_USED,
  NOT_WRONG,
  type Press,
  type Reason,
  type Redeem,
} from "./asking.js";
import { visitorOf } from "./browser.js";
import { outcomeOf } from "./judgement.js";
import type { Outcome } from "./outcomes.js";
import type { Uses } from "./uses.js";

/** How many digits the browser shows that asked for a link (`mailroom.browser_code`). */
const DIGITS = 5;

/**
 * How many codes the first visitor of a link may try, how many the second: five in all, of which a
 * scanner that guesses leaves two to the person. Visitors are told apart by a cookie that anybody
 * may drop, so more of them get no more tries.
 */
const TRIES: readonly number[] = [3, 2];

/** How many digits of the first browser the form of a link asks for; 0 for none. */
export function browserDigitsFor({ browser }: VerifiedLink<string>): number {
  return browser === "other" ? DIGITS : 0;
}

/** The press with the digits in their place: a form that has one field alone may call it a code. */
function placed(press: Press, { codeDigits }: VerifiedLink<string>): Press {
  const { code, browserCode } = press;
  return codeDigits === 0 ? { ...press, code: undefined, browserCode: browserCode ?? code } : press;
}

/** Asks the application about the digits that were typed, if a try is left. */
export async function redeemElsewhere(
  given: Press,
  link: VerifiedLink<string>,
  store: CheckedStore,
  uses: Uses,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const press = placed(given, link);
  const { code, browserCode, fields, request } = press;
  const typed = [
    [browserCode, DIGITS] as const,
    ...(link.codeDigits > 0 ? [[code, link.codeDigits] as const] : []),
  ];
  for (const [digits, length] of typed) {
    if (digits === undefined) {
      const reason = "ERR_CODE_REQUIRED";
      // Without the field the form of another browser was not shown yet.
      return fields.has("browser_code") ? outcomeOf(reason) : { page: "form", status: 422, reason };
    }
    if (digits.length !== length || !/^[0-9]+$/.test(digits))
      return outcomeOf("ERR_CODE_MALFORMED");
  }
  if (!store.attempt) {
    report(new GuardUnsupportedError("the store counts no tries: give it a method attempt"));
    return outcomeOf("ERR_GUARD_UNSUPPORTED");
  }
  const id = link.consumedId;
  const until = link.expiresAt + REMEMBERED_AFTER;
  const owner = newOwner();
  // The same visitor has the same place. This owner uses nothing, so it may be of a request: it
  // proves no more than that.
  const visitor = visitorOf(request.headers.get("Cookie")) ?? new Uint8Array(16);
  const place = await store.attempt(apart(id, 0), until, visitor);
  // Its place was withdrawn, which is final for this visitor.
  if (!place.ok) return { ...refusedBy(place, report), renewsVisitor: true };
  const most = TRIES[place.answer - 1];
  if (most === undefined) return locked("ERR_TOO_MANY_ATTEMPTS");
  const counter = apart(id, place.answer);
  const tried = await store.attempt(counter, until, owner);
  if (!tried.ok) return refusedBy(tried, report);
  if (tried.answer > most) return locked("ERR_TOO_MANY_ATTEMPTS");

  const isCovered = hasCodeTag(link.version) && link.codeDigits > 0;
  const proven = isCovered ? link.tryWithUncountedCode(code) : undefined;
  if (proven && !proven.ok) return outcomeOf(proven.reason);
  const outcome = await use(press, link, isCovered, store, uses, owner, redeem, report);
  const { reason } = outcome;
  if (reason === undefined) return outcome;
  const isRight =
    NOT_WRONG.includes(reason) || (await isTakenBack(store, id, until, owner, reason));
  if (isRight) await store.withdraw(counter, until, owner);
  return reason === "too_many_attempts" ? locked(reason) : outcome;
}

/** Uses the link before the application is asked, and gives it back if that was no use. */
async function use(
  press: Press,
  link: VerifiedLink<string>,
  codeIsProven: boolean,
  store: CheckedStore,
  uses: Uses,
  owner: Uint8Array,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const until = link.expiresAt + REMEMBERED_AFTER;
  const id = link.consumedId;
  const used = await store.consume(id, until, owner);
  if (!used.ok) return refusedBy(used, report);
  if (!used.answer)
    return outcomeOf((await uses.isFinal(id, until)) ? "ERR_TOKEN_USED" : "in_progress");
  const { reason, outcome } = await asked(redeem, linkOf(press, link, codeIsProven), report);
  if (reason === undefined || !NOT_USED.includes(reason)) {
    await uses.mark(id, until);
    return outcome;
  }
  const released = await store.release(id, until, owner);
  if (!released.ok) report(errorOf(released));
  // A response has no reason of its own.
  return outcome.page === "response" ? outcome : { ...outcome, reason };
}

function refusedBy(refusal: RefusedRedemption, report: (error: unknown) => void): Outcome {
  if (refusal.kind === "operator") report(errorOf(refusal));
  return outcomeOf(refusal.reason);
}

function locked(reason: Reason): Outcome {
  return { ...outcomeOf(reason), elsewhere: true };
}
