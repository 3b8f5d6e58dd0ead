import type { VerifiedLink } from "../link.js";
import { InvalidArgumentError } from "../store.js";
import type { VerifiedToken } from "../token.js";
import type { Judgement, Verdict } from "./judgement.js";
import type { HandlerOptions, RedeemableLink } from "./options.js";

export type Reason = NonNullable<Judgement["reason"]>;
export type Redeem = HandlerOptions<string>["redeem"];

/** What came with the press of the button. */
export interface Press {
  readonly token: string;
  readonly action: string;
  readonly code: string | undefined;
  /** What the browser has to show for a bound link. */
  readonly nonce: string | undefined;
  readonly fields: URLSearchParams;
  readonly request: Request;
}

/** After these the link was not used. */
export const NOT_USED: readonly Reason[] = [
  "wrong_code",
  "too_many_attempts",
  "not_eligible",
  "away",
  "redeem_failed",
];

/** What is said to whoever has not learnt that a code is wrong: the attempt is withdrawn. */
export const NOT_WRONG: readonly Reason[] = [
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

/** What the application answers; what it throws is an answer as well. */
export async function asked(
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
      "the option redeem must return a verdict of mailroom.redeem, 'away', or a Response whose body is unread",
    );
  } catch (error) {
    report(error);
    return "redeem_failed";
  }
}

/** Its values are getters, so that neither `console.log` nor `JSON.stringify` shows them. */
export function linkOf(
  { code, fields, request }: Press,
  proven: VerifiedToken<string> | VerifiedLink<string>,
  codeIsProven: boolean,
): RedeemableLink<string> {
  return Object.freeze(
    Object.create(
      {},
      {
        action: { get: () => proven.action, enumerable: false },
        secret: { get: () => proven.secret },
        consumedId: { get: () => proven.consumedId },
        expiresAt: { get: () => proven.expiresAt },
        bindingIsProven: { get: () => proven.browser === "same" },
        codeIsProven: { get: () => codeIsProven },
        code: { get: () => code },
        fields: { get: () => fields },
        request: { get: () => request },
      },
    ),
  );
}
