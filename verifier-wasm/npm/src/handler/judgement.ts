import type { RedemptionReason, VerificationReason } from "../errors/errors.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { Action, Browser } from "../token/types.js";

/**
 * What the database said of a link, as `mailroom.redeem` answers, or `away`: nothing was done,
 * since it cannot be asked.
 */
export type Verdict =
  | "ok"
  | "unknown"
  | "used"
  | "expired"
  | "not_eligible"
  | "too_many_attempts"
  | "wrong_code"
  | "away";

/**
 * The verdict `away` with the reason of it, which `onError` gets, as the option `redeem`
 * may answer.
 */
export interface Away {
  readonly away: unknown;
}

/** The pages, each of which `pages` may replace. */
export type PageName =
  /** The button, and the field for the code. */
  | "form"
  | "done"
  | "invalid"
  | "expired"
  | "used"
  | "locked"
  | "ineligible"
  | "error"
  | "failure"
  | "blocked";

/** Why a form is shown once more. */
export type Problem =
  | "wrongCode"
  | "missingCode"
  | "away"
  | "unknown"
  /** The application wants something else in a field of its own; `text` is what it says. */
  | "again";

/** What is to be answered. */
export interface Judgement<Further extends string = never> {
  /** What to show; `moved`: nothing but status and headers; `response`: that response. */
  readonly page: PageName | "moved" | "response";
  readonly status: number;
  /** To be sent with it, the policy among them. */
  readonly headers: Headers;
  readonly action: Action | Further | undefined;
  /** For the form's field `token`; there is one with the page `form` alone. */
  readonly token: string | undefined;
  /** How many digits the form's field `code` takes; 0 without one. */
  readonly codeDigits: number;
  /**
   * How many digits the form's field `browser_code` takes, which the browser shows that asked for
   * the link; 0 without one.
   */
  readonly browserCodeDigits: number;
  /**
   * In which browser the link was opened, where there is a form: in another one than that which
   * asked for it a code is needed.
   */
  readonly browser: Browser | undefined;
  /** When the link ends, in seconds since the Unix epoch, where that is known. */
  readonly expiresAt: number | undefined;
  /** Why the form is shown once more. */
  readonly problem: Problem | undefined;
  /**
   * Why a link is not let through: a reason of the guard, a verdict, `again`, `redeem_failed`, or
   * `in_progress`: it is in use, in another browser or process. For logs and not for visitors.
   */
  readonly reason:
    | VerificationReason
    | RedemptionReason
    | Exclude<Verdict, "ok">
    | "again"
    | "redeem_failed"
    | "in_progress"
    | undefined;
  /** The language of the texts, for the attribute `lang`. */
  readonly language: string;
  readonly title: string;
  readonly text: string;
  /** What is on the button of the form. */
  readonly button: string;
  /** The label of the field for the code. */
  readonly codeLabel: string;
  /** The label of the field for the digits that the other browser shows. */
  readonly browserCodeLabel: string;
  /** Lets a script or a style of the page pass the policy. */
  readonly nonce: string;
  /** What `redeem` has answered instead of a verdict, or the page that reads a token behind `#`. */
  readonly response: Response | undefined;
}

/** @internal What became of a link. */
export interface Outcome {
  readonly page: PageName | "moved" | "response";
  readonly status: number;
  readonly headers?: Record<string, string>;
  /** Headers `Set-Cookie`. */
  readonly cookies?: readonly string[];
  /** What the application says of the form's fields. */
  readonly message?: string;
  readonly problem?: Problem;
  /** Whether it is said to another browser than that which asked for the link. */
  readonly elsewhere?: boolean;
  /** Whether that browser becomes another visitor. */
  readonly renewsVisitor?: boolean;
  readonly reason?: Judgement["reason"];
  readonly link?: ShownLink;
  readonly response?: Response;
  /** What the page that reads a token behind `#` checks it with. */
  readonly publicKeys?: readonly string[];
}

/** @internal What a form is made of. */
export interface ShownLink {
  readonly token: string;
  readonly codeDigits: number;
  readonly browserCodeDigits: number;
  readonly expiresAt: number | undefined;
  readonly browser: Browser;
}

const AGAIN = { "Retry-After": "5" };

const INVALID: Outcome = { page: "invalid", status: 403 };
const EXPIRED: Outcome = { page: "expired", status: 410 };
const USED: Outcome = { page: "used", status: 409 };
const LOCKED: Outcome = { page: "locked", status: 429 };
const WRONG_CODE: Outcome = { page: "form", status: 422, problem: "wrongCode" };
const MISSING_CODE: Outcome = { page: "form", status: 422, problem: "missingCode" };
const AWAY: Outcome = { page: "form", status: 503, problem: "away", headers: AGAIN };
const AGAIN_FORM: Outcome = { page: "form", status: 422, problem: "again" };
const UNKNOWN: Outcome = { page: "form", status: 503, problem: "unknown", headers: AGAIN };
const FAILURE: Outcome = { page: "failure", status: 500 };

// One answer for all that a forger could learn from: whether a token was signed, by which key, for
// what, and of whom.
const OUTCOMES: { readonly [Reason in NonNullable<Judgement["reason"]>]: Outcome } = {
  ERR_TOKEN_MALFORMED: INVALID,
  ERR_TOKEN_SIGNATURE: INVALID,
  ERR_TOKEN_ACTION: INVALID,
  ERR_TOKEN_OTHER_BROWSER: INVALID,
  ERR_CODE_UNCHECKABLE: INVALID,
  ERR_LINK_UNCHECKABLE: INVALID,
  unknown: INVALID,
  ERR_TOKEN_EXPIRED: EXPIRED,
  expired: EXPIRED,
  ERR_TOKEN_USED: USED,
  used: USED,
  ERR_TOO_MANY_ATTEMPTS: LOCKED,
  too_many_attempts: LOCKED,
  not_eligible: { page: "ineligible", status: 409 },
  ERR_CODE_REQUIRED: MISSING_CODE,
  ERR_CODE_MALFORMED: MISSING_CODE,
  ERR_CODE_MISMATCH: WRONG_CODE,
  wrong_code: WRONG_CODE,
  ERR_STORE_FULL: AWAY,
  ERR_STORE_UNAVAILABLE: AWAY,
  away: AWAY,
  again: AGAIN_FORM,
  redeem_failed: UNKNOWN,
  in_progress: UNKNOWN,
  ERR_GUARD_UNSUPPORTED: FAILURE,
};

/** @internal What is answered where a link is not let through. */
export function outcomeOf(reason: NonNullable<Judgement["reason"]>): Outcome {
  if (Object.hasOwn(OUTCOMES, reason)) return { ...OUTCOMES[reason], reason };
  throw new InvalidArgumentError("the option verifier must be a verifier; this one gave no reason");
}
