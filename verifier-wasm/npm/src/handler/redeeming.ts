import { readStore } from "../checked_store.js";
import { makeGuard } from "../guard.js";
import type { GuardOptions } from "../guard_options.js";
import { errorOf, InvalidArgumentError } from "../store.js";
import type { VerifiedToken } from "../token.js";
import { Attempts } from "./attempts.js";
import { type Judgement, type Outcome, outcomeOf, type Verdict } from "./judgement.js";
import type { HandlerOptions, RedeemableLink } from "./options.js";

type Reason = NonNullable<Judgement["reason"]>;

/** After these the link was not used, so it is released. */
const RELEASED: readonly Reason[] = [
  "wrong_code",
  "too_many_attempts",
  "not_eligible",
  "away",
  "redeem_failed",
];

/** What is said to whoever has not learnt that a code is wrong: the attempt is withdrawn. */
const NOT_WRONG: readonly Reason[] = [
  "unknown",
  "not_eligible",
  "away",
  "redeem_failed",
  "ERR_TOKEN_USED",
  "ERR_TOO_MANY_ATTEMPTS",
  "ERR_STORE_FULL",
  "ERR_STORE_UNAVAILABLE",
];

const VERDICTS: readonly unknown[] = [
  "ok",
  "unknown",
  "used",
  "expired",
  "not_eligible",
  "too_many_attempts",
  "wrong_code",
  "away",
] satisfies Verdict[];

/** What came with the press of the button. */
export interface Press {
  readonly token: string;
  readonly action: string;
  readonly code: string | undefined;
  readonly fields: URLSearchParams;
  readonly request: Request;
}

/** Thrown in the guard's callback, after which it releases the link. */
class Released {
  constructor(readonly reason: Reason) {}
}

type Redeem = HandlerOptions<string>["redeem"];

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
  if (outcome.reason !== undefined && NOT_WRONG.includes(outcome.reason)) await attempts.withdraw();
  return outcome;
}

async function redeemed(
  guard: ReturnType<typeof makeGuard<string>>,
  press: Press,
  redeem: Redeem,
  report: (error: unknown) => void,
): Promise<Outcome> {
  const { token, action, code } = press;
  let released: Released | undefined;
  try {
    const found = await guard.tryRedeem(token, { action, code } as { action: string }, async (verified) => {
      const answer = await asked(redeem, linkOf(press, verified), report);
      if (typeof answer !== "string" || !RELEASED.includes(answer as Reason)) return answer;
      released = new Released(answer as Reason);
      throw released;
    });
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

/** What the application answers; what it throws is an answer as well. */
async function asked(
  redeem: Redeem,
  link: RedeemableLink<string>,
  report: (error: unknown) => void,
): Promise<Verdict | "redeem_failed" | Response> {
  try {
    const answer: unknown = await redeem(link);
    if (VERDICTS.includes(answer)) return answer as Verdict;
    // One that failed or was read before cannot be passed on.
    if (answer instanceof Response && answer.status >= 200 && !answer.bodyUsed) return answer;
    throw new InvalidArgumentError(
      "redeem answers a verdict of mailroom.redeem, away, or a Response; this was neither",
    );
  } catch (error) {
    report(error);
    return "redeem_failed";
  }
}

/** Its values are getters, so that neither `console.log` nor `JSON.stringify` shows them. */
function linkOf({ code, fields, request }: Press, token: VerifiedToken<string>): RedeemableLink<string> {
  return Object.freeze(
    Object.create(
      {},
      {
        action: { get: () => token.action, enumerable: false },
        secret: { get: () => token.secret },
        consumedId: { get: () => token.consumedId },
        expiresAt: { get: () => token.expiresAt },
        codeIsProven: { get: () => token.codeIsProven },
        code: { get: () => code },
        fields: { get: () => fields },
        request: { get: () => request },
      },
    ),
  );
}
