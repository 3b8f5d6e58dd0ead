import { readStore } from "../checked_store.js";
import { makeGuard } from "../guard.js";
import type { GuardOptions } from "../guard_options.js";
import { errorOf } from "../store.js";
import { asked, linkOf, NOT_USED, NOT_WRONG, type Press, type Reason, type Redeem } from "./asking.js";
import { Attempts } from "./attempts.js";
import { redeemElsewhere } from "./elsewhere.js";
import { type Outcome, outcomeOf } from "./judgement.js";

/** Thrown in the guard's callback, after which it releases the link. */
class Released {
  constructor(readonly reason: Reason) {}
}

/** Redeems a link by a guard of its own, and asks the application. */
export async function redeemLink(
  press: Press,
  options: GuardOptions<string> & { readonly storeTimeout: number },
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const { store, storeTimeout } = options;
  const attempts = new Attempts(store, readStore(store, storeTimeout).withdraw);
  const guard = makeGuard<string>({ ...options, store: attempts.store });
  const outcome = await redeemed(guard, press, redeem, report);
  // Before the guard has counted anything.
  if (outcome.reason === "ERR_TOKEN_OTHER_BROWSER") return redeemElsewhere(press, options, redeem, report);
  if (outcome.reason !== undefined && NOT_WRONG.includes(outcome.reason)) await attempts.withdraw();
  return outcome;
}

async function redeemed(
  guard: ReturnType<typeof makeGuard<string>>,
  press: Press,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const { token, action, code, nonce } = press;
  let released: Released | undefined;
  try {
    const found = await guard.tryRedeem(
      token,
      { action, code, nonce } as { action: string },
      async (verified) => {
        const answer = await asked(redeem, linkOf(press, verified, verified.codeIsProven), report);
        if (typeof answer !== "string" || !NOT_USED.includes(answer as Reason)) return answer;
        released = new Released(answer as Reason);
        throw released;
      },
    );
    if (!found.ok) {
      if (found.kind === "operator") report(errorOf(found));
      return outcomeOf(found.reason);
    }
    const { result } = found;
    if (typeof result !== "string") return { page: "response", status: result.status, response: result };
    return result === "ok" ? { page: "done", status: 200 } : outcomeOf(result as Reason);
  } catch (error) {
    if (released === undefined) throw error;
    // Whether it was released is not known, if it is not that which was thrown: the next press shows it.
    if (error !== released) report(error);
    return outcomeOf(released.reason);
  }
}
