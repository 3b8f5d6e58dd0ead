// A bound link in another browser than that which asked for it. Only the row's code proves the person there, and the database
// judges it. Whatever is tried there costs the browser that asked nothing: neither its tries nor, for a moment, its use.

import { readStore } from "../checked_store.js";
import type { RefusedRedemption } from "../denial.js";
import { newOwner, REMEMBERED_AFTER } from "../guard.js";
import type { GuardOptions } from "../guard_options.js";
import type { VerifiedLink } from "../link.js";
import { errorOf, GuardUnsupportedError } from "../store.js";
import { asked, linkOf, NOT_USED, NOT_WRONG, type Press, type Reason, type Redeem } from "./asking.js";
import { visitorOf } from "./browser.js";
import { type Outcome, outcomeOf } from "./judgement.js";

/** How many digits a row's code has where the action itself needs none. */
const DIGITS = 5;

/**
 * How many codes the first visitor of a link may try, how many the second: five in all, of which a scanner that guesses leaves
 * two to the person. Visitors are told apart by a cookie that anybody may drop, so more of them get no more tries.
 */
const TRIES: readonly number[] = [3, 2];

/** How many digits the form of a link asks for; 0 for none. */
export function digitsFor({ browser, codeDigits }: VerifiedLink<string>): number {
  return browser === "other" && codeDigits === 0 ? DIGITS : codeDigits;
}

/** Asks the application about the code that was typed, if a try is left. */
export async function redeemElsewhere(
  press: Press,
  { verifier, ...options }: GuardOptions<string> & { readonly storeTimeout: number },
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const { token, action, nonce, code, request } = press;
  const found = verifier.tryVerifyLink(token, { action, nonce });
  if (!found.ok) return outcomeOf(found.reason);
  const { link } = found;
  // The form of another browser was not shown yet.
  if (code === undefined) return { page: "form", status: 422, reason: "ERR_CODE_REQUIRED" };
  if (code.length !== digitsFor(link) || !/^[0-9]+$/.test(code)) return outcomeOf("ERR_CODE_MALFORMED");

  const store = readStore(options.store, options.storeTimeout);
  if (!store.attempt) {
    report(new GuardUnsupportedError("the store counts no tries: give it a method attempt"));
    return outcomeOf("ERR_GUARD_UNSUPPORTED");
  }
  const id = link.consumedId;
  const until = link.expiresAt + REMEMBERED_AFTER;
  const owner = newOwner();
  // The same visitor has the same place. This owner uses nothing, so it may be of a request: it proves no more than that.
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

  const isCovered = link.version === 2 && link.codeDigits > 0;
  const proven = isCovered ? link.tryWithUncountedCode(code) : undefined;
  if (proven && !proven.ok) return outcomeOf(proven.reason);
  const answer = await asked(redeem, linkOf(press, link, isCovered), report);
  const reason = typeof answer === "string" && answer !== "ok" ? answer : undefined;
  if (reason !== undefined && NOT_WRONG.includes(reason)) await store.withdraw(counter, until, owner);
  if (reason === undefined || !NOT_USED.includes(reason)) {
    // Not before the verdict, since a wrong code would make the link used for a moment. The database knows it in any case.
    const remembered = await store.consume(id, until, owner);
    if (!remembered.ok) report(errorOf(remembered));
  }
  if (typeof answer !== "string") return { page: "response", status: answer.status, response: answer };
  if (reason === undefined) return { page: "done", status: 200 };
  return reason === "too_many_attempts" ? locked(reason) : outcomeOf(reason);
}

function refusedBy(refusal: RefusedRedemption, report: (error: unknown) => void): Outcome {
  if (refusal.kind === "operator") report(errorOf(refusal));
  return outcomeOf(refusal.reason);
}

function locked(reason: Reason): Outcome {
  return { ...outcomeOf(reason), elsewhere: true };
}

/** An id that no row has, under which tries of other browsers are counted apart. */
function apart(id: Uint8Array, place: number): Uint8Array {
  return id.map((byte) => byte ^ (255 - place));
}
