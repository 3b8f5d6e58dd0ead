import type { Browser } from "../token/types.js";
import type { Judgement, PageName, Problem } from "./judgement.js";

/** @internal What became of a link. */
export interface Outcome {
  readonly page: PageName | "moved" | "response";
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
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
  /** The token for which a new link may be asked. */
  readonly renews?: string;
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

export const INVALID: Outcome = { page: "invalid", status: 403 };
export const EXPIRED: Outcome = { page: "expired", status: 410 };
export const USED: Outcome = { page: "used", status: 409 };
export const LOCKED: Outcome = { page: "locked", status: 429 };
export const WRONG_CODE: Outcome = { page: "form", status: 422, problem: "wrongCode" };
export const MISSING_CODE: Outcome = { page: "form", status: 422, problem: "missingCode" };
export const AWAY: Outcome = { page: "form", status: 503, problem: "away", headers: AGAIN };
export const AGAIN_FORM: Outcome = { page: "form", status: 422, problem: "again" };
export const WRONG_PASSWORD: Outcome = { page: "form", status: 422, problem: "password" };
export const UNKNOWN: Outcome = { page: "form", status: 503, problem: "unknown", headers: AGAIN };
export const FAILURE: Outcome = { page: "failure", status: 500 };
export const RENEWED: Outcome = { page: "renewed", status: 202 };
/** The button once more, for what could not be asked. */
export const UNASKED: Outcome = { page: "renewed", status: 503, headers: AGAIN, problem: "away" };
export const INELIGIBLE: Outcome = { page: "ineligible", status: 409 };
