import { InvalidArgumentError } from "../errors/errors.js";
import type { VerifiedToken } from "../token/token.js";
import type { VerifiedLink } from "../verifier/link.js";
import type { Away, Judgement, Verdict } from "./judgement.js";
import { outcomeOf } from "./judgement.js";
import type { Again, HandlerOptions, RedeemableLink } from "./options.js";
import type { Outcome } from "./outcomes.js";

export type Reason = NonNullable<Judgement["reason"]>;
export type Redeem = HandlerOptions<string>["redeem"];

/** What came with the press of the button. */
export interface Press {
  readonly token: string;
  readonly action: string;
  readonly code: string | undefined;
  /** What the browser shows that asked for a bound link. */
  readonly browserCode: string | undefined;
  /** What the browser has to show for a bound link. */
  readonly nonce: string | undefined;
  readonly fields: URLSearchParams;
  readonly request: Request;
}

/** What the application has said. */
export interface Answer {
  /** Nothing where the link was used: `ok`, or a response below 400. */
  readonly reason: Reason | undefined;
  readonly outcome: Outcome;
}

/** After these the link was not used. */
export const NOT_USED: readonly Reason[] = [
  "unknown",
  "wrong_code",
  "too_many_attempts",
  "not_eligible",
  "away",
  "again",
  "redeem_failed",
];

/** What is said to whoever has not learnt that a code is wrong: the attempt is withdrawn. */
export const NOT_WRONG: readonly Reason[] = [
  "unknown",
  "not_eligible",
  "away",
  "redeem_failed",
  "in_progress",
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

/** The most characters that a page shows of what the application says. */
const LONGEST = 1_000;

/** Whether the answer says what is wrong with a field of the form. */
export function isAgain(answer: unknown): answer is Again {
  const said = (answer as Partial<Again> | null | undefined)?.again;
  return typeof said === "string" && said !== "" && said.length <= LONGEST;
}

/** Whether the answer says why the database cannot be asked. */
function isAway(answer: unknown): answer is Away {
  return typeof answer === "object" && answer !== null && Object.hasOwn(answer, "away");
}

/** The form once more, with what the application says. */
export function againWith({ again }: Again): Outcome {
  return { ...outcomeOf("again"), message: again };
}

/** What the application answers; what it throws is an answer as well. */
export async function asked(
  redeem: Redeem,
  link: RedeemableLink<string>,
  report: (error: unknown) => void,
): Promise<Answer> {
  try {
    const answer: unknown = await redeem(link);
    if (answer === "ok") return { reason: undefined, outcome: { page: "done", status: 200 } };
    if (VERDICTS.includes(answer)) return answered(answer as Reason);
    // One that failed or was read before cannot be passed on.
    const isUnread = answer instanceof Response && !answer.bodyUsed && !answer.body?.locked;
    if (isUnread && answer.status >= 200) {
      const outcome: Outcome = { page: "response", status: answer.status, response: answer };
      // An error of the application's is not what the link was for. The attempt stays: it may be
      // about the code.
      return { reason: answer.status >= 400 ? "wrong_code" : undefined, outcome };
    }
    if (isAgain(answer)) return { reason: "again", outcome: againWith(answer) };
    if (isAway(answer)) {
      report(answer.away);
      return answered("away");
    }
    throw new InvalidArgumentError(
      "the option redeem must return a verdict of mailroom.redeem, 'away', { again: " +
        "'a message' }, or a Response whose body is unread",
    );
  } catch (error) {
    report(error);
    return answered("redeem_failed");
  }
}

function answered(reason: Reason): Answer {
  return { reason, outcome: outcomeOf(reason) };
}

/** Its values are getters, so that neither `console.log` nor `JSON.stringify` shows them. */
export function linkOf(
  { code, browserCode, fields, request }: Press,
  proven: Pick<
    VerifiedToken<string> | VerifiedLink<string>,
    "action" | "secret" | "consumedId" | "expiresAt" | "browser"
  >,
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
        browserCode: { get: () => (proven.browser === "other" ? browserCode : undefined) },
        fields: { get: () => fields },
        request: { get: () => request },
      },
    ),
  );
}
