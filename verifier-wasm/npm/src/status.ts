import { denied, type ErrorClass } from "./denial.js";
import {
  CodeMalformedError,
  CodeMismatchError,
  CodeRequiredError,
  CodeUncheckableError,
  LinkUncheckableError,
  TokenActionError,
  TokenExpiredError,
  TokenMalformedError,
  TokenSignatureError,
  type VerificationError,
  type VerificationReason,
  WasmUnavailableError,
} from "./errors.js";
import type { VerifiedToken } from "./token.js";
import type { Refused, Verification } from "./types.js";

/** The call did what it was asked to. */
export const OK = 0;
/** This key did not make the tag; another key of the ring may have. */
export const SIGNATURE = 3;
/** A code was given where nothing covers one. */
export const CODE_UNCHECKABLE = 4;
/** There is no code where there has to be one. */
export const CODE_REQUIRED = 5;

/** The code has not the shape of one. */
export const CODE_MALFORMED = 6;
/** The time of the token is over. */
export const EXPIRED = 11;
/** The link is good, and its code is another one. */
export const CODE_MISMATCH = 12;

/** A token of v3 came where keys are shared. The modules know nothing of this number. */
const FOR_PUBLIC_KEY = 14;

/** What is said of a version that is not accepted. A verifier of public keys accepts v3. */
export function unaccepted(version: number): number {
  return version === 3 ? FOR_PUBLIC_KEY : SIGNATURE;
}

/** What is found out about a token before any key is asked. */
export function isMalformed(status: number): boolean {
  return status !== OK && meaning(status)[0] === TokenMalformedError;
}

/** What is found out about the code of a v1 token before any key is asked. */
export function isAboutCode(status: number): boolean {
  return status >= CODE_UNCHECKABLE && status <= CODE_MALFORMED;
}

type Class = ErrorClass<VerificationReason, "visitor", VerificationError>;

/** What the numbers of `verifier-wasm/src/status.rs` mean, from 1 on. */
const refusals: readonly (readonly [Class, string])[] = [
  [TokenMalformedError, "a token is a string of 86, 104, 124 or 147 characters"],
  [TokenMalformedError, "the token is not canonical base64url"],
  [TokenSignatureError, "no key of this ring signed this token for this action and code"],
  [CodeUncheckableError, "nothing that was signed covers a code: leave it out"],
  [CodeRequiredError, "a recovery needs its code, which guard.redeem compares"],
  [CodeMalformedError, "a code is a string of five digits from 0 to 9"],
  [TokenMalformedError, "a token of this length is of another version"],
  [TokenMalformedError, "a token of this length has another action"],
  [TokenMalformedError, "the token's expiry is after the year 9999"],
  [TokenActionError, "the token is for the other action"],
  [TokenExpiredError, "the token has expired"],
  [CodeMismatchError, "the code is not this link's"],
  [LinkUncheckableError, "a v1 token is judged only together with its code"],
  [TokenSignatureError, "a v3 token is for mailroom-verifier/public"],
];

function meaning(status: number): readonly [Class, string] {
  const found = refusals[status - 1];
  if (!found) throw new WasmUnavailableError("the module is of another version");
  return found;
}

/** The error that a number other than {@link OK} stands for. */
export function refusal(status: number): VerificationError {
  const [Refusal, message] = meaning(status);
  return new Refusal(message);
}

/** The same as a result. */
export function refused(status: number): Refused {
  return denied(...meaning(status));
}

/** What was proven, or else the error. */
export function orThrow<Proven>(verdict: Proven | number): Proven {
  if (typeof verdict === "number") throw refusal(verdict);
  return verdict;
}

/** The same as a result. */
export function asResult(verdict: VerifiedToken | number): Verification {
  return typeof verdict === "number" ? refused(verdict) : { ok: true, token: verdict };
}
