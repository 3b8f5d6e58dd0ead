import { errorOf } from "../errors/errors.js";
import { type CheckedStore, readStore } from "../guard/checked_store.js";
import { makeGuard } from "../guard/guard.js";
import type { GuardOptions } from "../guard/options.js";
import type { VerifiedLink } from "../verifier/link.js";
import { type Answer, asked, linkOf, NOT_USED, type Press, type Redeem } from "./asking.js";
import { Attempts } from "./attempts.js";
import { redeemElsewhere } from "./elsewhere.js";
import { outcomeOf } from "./judgement.js";
import type { Outcome } from "./outcomes.js";
import { Uses } from "./uses.js";

export type Options = GuardOptions<string> & { readonly storeTimeout: number };

/** Thrown in the guard's callback, after which it releases the link. */
class Released {
  constructor(readonly answer: Answer) {}
}

/** The links whose use has begun in this process, and what becomes of it is not known. */
export type Begun = Set<string>;

/** After how many milliseconds it is looked again whether a use has ended. */
const PAUSE = 50;

/**
 * Redeems a link by a guard of its own, and asks the application. `link`: what was found of it; of
 * v1 nothing.
 */
export async function redeemLink(
  press: Press,
  link: VerifiedLink<string> | undefined,
  options: Options,
  begun: Begun,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const store = readStore(options.store, options.storeTimeout);
  const uses = new Uses(options.store, options.storeTimeout);
  // Before the guard has counted anything.
  if (link?.browser === "other") return redeemElsewhere(press, link, store, uses, redeem, report);
  const here = () => redeemHere(press, options, store, uses, begun, redeem, report);
  let tried = await here();
  // A press that is sent twice, as by a double click without script: the first one may end as no
  // use.
  if (tried.outcome.reason === "ERR_TOKEN_USED" && begun.has(press.token)) {
    if (!(await ended(begun, press.token, options.storeTimeout * 1_000)))
      return outcomeOf("in_progress");
    tried = await here();
  }
  const { outcome, used } = tried;
  // So may one of another process, or of another browser.
  const isOpen = outcome.reason === "ERR_TOKEN_USED" && used && !(await uses.isFinal(...used));
  return isOpen ? outcomeOf("in_progress") : outcome;
}

/** Whether a use has ended within so many milliseconds. */
async function ended(begun: Begun, token: string, patience: number): Promise<boolean> {
  // Some runtimes let no request wait for what another one does.
  for (let waited = 0; begun.has(token); waited += PAUSE) {
    if (waited >= patience) return false;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  return true;
}

async function redeemHere(
  press: Press,
  options: Options,
  store: CheckedStore,
  uses: Uses,
  begun: Begun,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<{ readonly outcome: Outcome; readonly used: Attempts["used"] }> {
  const attempts = new Attempts(options.store, store);
  const guard = makeGuard<string>({ ...options, store: attempts.store });
  const end = async () => {
    if (attempts.used) await uses.mark(...attempts.used);
  };
  const { reason, outcome } = await redeemed(guard, press, begun, redeem, end, report);
  await attempts.settle(reason);
  return { outcome, used: attempts.used };
}

/** @param end is awaited once the use is final */
async function redeemed(
  guard: ReturnType<typeof makeGuard<string>>,
  press: Press,
  begun: Begun,
  redeem: Redeem,
  end: () => Promise<void>,
  report: (error: unknown) => void,
): Promise<Answer> {
  const { token, action, code, nonce } = press;
  let released: Released | undefined;
  let isOwn = false;
  try {
    const found = await guard.tryRedeem(
      token,
      { action, code, nonce } as { action: string },
      async (verified) => {
        begun.add(token);
        isOwn = true;
        const answer = await asked(redeem, linkOf(press, verified, verified.codeIsProven), report);
        if (answer.reason === undefined || !NOT_USED.includes(answer.reason)) return answer;
        released = new Released(answer);
        throw released;
      },
    );
    if (found.ok) {
      await end();
      return found.result;
    }
    if (found.kind === "operator") report(errorOf(found));
    return { reason: found.reason, outcome: outcomeOf(found.reason) };
  } catch (error) {
    if (released === undefined) throw error;
    // Whether it was released is not known, if it is not that which was thrown: the next press
    // shows it.
    if (error !== released) report(error);
    return released.answer;
  } finally {
    if (isOwn) begun.delete(token);
  }
}
