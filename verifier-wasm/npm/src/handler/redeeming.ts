import { type CheckedStore, readStore } from "../checked_store.js";
import { makeGuard, REMEMBERED_AFTER } from "../guard.js";
import type { GuardOptions } from "../guard_options.js";
import type { VerifiedLink } from "../link.js";
import { errorOf } from "../store.js";
import { alone } from "./apart.js";
import { type Answer, asked, linkOf, NOT_USED, type Press, type Redeem } from "./asking.js";
import { Attempts } from "./attempts.js";
import { redeemElsewhere } from "./elsewhere.js";
import { type Outcome, outcomeOf } from "./judgement.js";

export type Options = GuardOptions<string> & { readonly storeTimeout: number };

/** Thrown in the guard's callback, after which it releases the link. */
class Released {
  constructor(readonly answer: Answer) {}
}

/**
 * Redeems a link by a guard of its own, and asks the application. `link`: what was found of it; of
 * v1 nothing.
 */
export async function redeemLink(
  press: Press,
  link: VerifiedLink<string> | undefined,
  options: Options,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const store = readStore(options.store, options.storeTimeout);
  // Before the guard has counted anything.
  if (link?.browser === "other") return redeemElsewhere(press, link, store, redeem, report);
  const outcome = await redeemHere(press, options, store, redeem, report);
  // What another browser has begun may end as no use.
  if (link?.browser !== "same" || outcome.reason !== "ERR_TOKEN_USED") return outcome;
  const until = link.expiresAt + REMEMBERED_AFTER;
  return alone(store, link.consumedId, until, () =>
    redeemHere(press, options, store, redeem, report),
  );
}

async function redeemHere(
  press: Press,
  options: Options,
  store: CheckedStore,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const attempts = new Attempts(options.store, store);
  const guard = makeGuard<string>({ ...options, store: attempts.store });
  const { reason, outcome } = await redeemed(guard, press, redeem, report);
  await attempts.settle(reason);
  return outcome;
}

async function redeemed(
  guard: ReturnType<typeof makeGuard<string>>,
  press: Press,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Answer> {
  const { token, action, code, nonce } = press;
  let released: Released | undefined;
  try {
    const found = await guard.tryRedeem(
      token,
      { action, code, nonce } as { action: string },
      async (verified) => {
        const answer = await asked(redeem, linkOf(press, verified, verified.codeIsProven), report);
        if (answer.reason === undefined || !NOT_USED.includes(answer.reason)) return answer;
        released = new Released(answer);
        throw released;
      },
    );
    if (found.ok) return found.result;
    if (found.kind === "operator") report(errorOf(found));
    return { reason: found.reason, outcome: outcomeOf(found.reason) };
  } catch (error) {
    if (released === undefined) throw error;
    // Whether it was released is not known, if it is not that which was thrown: the next press
    // shows it.
    if (error !== released) report(error);
    return released.answer;
  }
}
