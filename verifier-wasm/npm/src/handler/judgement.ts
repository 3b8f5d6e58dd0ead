import type { RedemptionReason, VerificationReason } from "../errors/errors.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { Action, Browser } from "../token/types.js";
import { OF_REFUSALS } from "./generated/outcomes.js";
import {
  AGAIN_FORM,
  AWAY,
  EXPIRED,
  INELIGIBLE,
  INVALID,
  LOCKED,
  type Outcome,
  UNKNOWN,
  USED,
  WRONG_CODE,
} from "./outcomes.js";
import type { Way } from "./site.js";

export type { Way } from "./site.js";

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
  /** A new link was asked for by the button that the option `renewLink` makes. */
  | "renewed"
  | "error"
  | "failure"
  | "blocked";

/** Why a form is shown once more. */
export type Problem =
  | "wrongCode"
  | "missingCode"
  /** The new password has not the right length; nothing is said of a code. */
  | "password"
  | "away"
  | "unknown"
  /** The application wants something else in a field of its own; `text` is what it says. */
  | "again";

/** Why a link is not let through; in a {@link Judgement} it says more. */
export type RefusalReason =
  | VerificationReason
  | RedemptionReason
  | Exclude<Verdict, "ok">
  | "again"
  | "redeem_failed"
  | "in_progress";

/** What is answered where a link is not let through. */
export interface RefusalOutcome {
  readonly page: PageName;
  readonly status: number;
  /** To be sent with it, such as `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Why the form is shown once more. */
  readonly problem?: Problem;
  /** The reason that was asked about. */
  readonly reason?: RefusalReason;
}

/** The field for a new password, in the language of the page. */
export interface PasswordField {
  readonly label: string;
  /** Below the field. */
  readonly hint: string;
  /** Beside the box that shows what is typed. */
  readonly show: string;
  /** In code points of the normal form NFC, as `maxLength`. */
  readonly minLength: number;
  readonly maxLength: number;
}

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
  /** What the form's field `password` needs, where the option `password` asks for one. */
  readonly password: PasswordField | undefined;
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
  readonly reason: RefusalReason | undefined;
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
  /**
   * What is on the button that asks for a new link, where the option `renewLink` can send one: its
   * form posts `token`, and `renew` with any value.
   */
  readonly renew: { readonly token: string; readonly button: string } | undefined;
  /** Where a page without a form leads on, by the option `site`. */
  readonly ways: readonly Way[];
  /** Lets a script or a style of the page pass the policy. */
  readonly nonce: string;
  /** What `redeem` has answered instead of a verdict, or the page that reads a token behind `#`. */
  readonly response: Response | undefined;
}

// One answer for all that a forger could learn from: whether a token was signed, by which key, for
// what, and of whom.
const OUTCOMES: { readonly [Reason in RefusalReason]: Outcome } = {
  ...OF_REFUSALS,
  unknown: INVALID,
  expired: EXPIRED,
  used: USED,
  too_many_attempts: LOCKED,
  not_eligible: INELIGIBLE,
  wrong_code: WRONG_CODE,
  away: AWAY,
  again: AGAIN_FORM,
  redeem_failed: UNKNOWN,
  in_progress: UNKNOWN,
};

/** @internal What is answered where a link is not let through. */
export function outcomeOf(reason: RefusalReason): Outcome {
  if (typeof reason === "string" && Object.hasOwn(OUTCOMES, reason))
    return { ...OUTCOMES[reason], reason };
  throw new InvalidArgumentError("the option verifier must be a verifier; this is no reason");
}

/**
 * What the handler answers where a link is not let through, for pages that are made without it.
 *
 * @throws InvalidArgumentError for what is no reason of a refusal
 * @example
 * const { page, status } = outcomeOf(refusal.reason);
 */
export const publicOutcomeOf = outcomeOf as (reason: RefusalReason) => RefusalOutcome;
