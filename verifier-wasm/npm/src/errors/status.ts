import type { Refused } from "../token/types.js";
import { FOR_PUBLIC_KEY, FOR_SHARED_KEY, KEY_UNKNOWN } from "../verifier/key_refusals.js";
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
  TokenOtherBrowserError,
  TokenSignatureError,
  type VerificationError,
  type VerificationReason,
  WasmUnavailableError,
} from "./errors.js";

/** The call succeeded. */
export const OK = 0;
/** This key did not make the tag; another key of the ring may have. */
export const SIGNATURE = 3;
/** A code was given where no signature covers one. */
export const CODE_UNCHECKABLE = 4;
/** The code is missing. */
export const CODE_REQUIRED = 5;

/** The code does not have the digits of its action. */
export const CODE_MALFORMED = 6;
/** The token is for another action. */
export const ACTION = 10;
/** The token has expired. */
export const EXPIRED = 11;
/** The link is valid, the code is wrong. */
export const CODE_MISMATCH = 12;

/** A v1 token has no link apart from its code. */
export const LINK_UNCHECKABLE = 13;
/** The link is valid, but in another browser. */
export const OTHER_BROWSER = 14;

/** The module has left the signature to the platform. */
export const PENDING_SIGNATURE = 254;

/**
 * A token of v3 for a verifier of shared keys, and others for one of public keys. The modules do
 * not return these numbers.
 */
const OF_PUBLIC_KEY = 15;
const OF_SHARED_KEY = 16;

/**
 * The token names a key that the ring does not have. The modules do not return this number either.
 */
export const UNKNOWN_KEY = 17;

/** The status of a version that is not among those that are accepted. */
export function unaccepted(version: number, accepted: readonly number[]): number {
  if (version === 3) return OF_PUBLIC_KEY;
  return accepted.includes(3) ? OF_SHARED_KEY : SIGNATURE;
}

/** Whether a token is malformed, which is found before a key is tried. */
export function isMalformed(status: number): boolean {
  return status !== OK && meaning(status)[0] === TokenMalformedError;
}

/** Whether the code of a v1 token is at fault, which is found before a key is tried. */
export function isAboutCode(status: number): boolean {
  return status >= CODE_UNCHECKABLE && status <= CODE_MALFORMED;
}

type Class = ErrorClass<VerificationReason, "visitor", VerificationError>;

/** What the numbers of `verifier-wasm/src/status.rs` mean, from 1 on. */
const refusals: readonly (readonly [Class, string])[] = [
  [TokenMalformedError, "a token is a string of 86, 104, 124, 126, 146, 147 or 168 characters"],
  [TokenMalformedError, "the token is not canonical base64url"],
  [TokenSignatureError, "no key of this ring signed this token for this action and code"],
  [CodeUncheckableError, "no code is signed for this token: leave it out"],
  [CodeRequiredError, "this action needs its code, which guard.redeem compares"],
  [CodeMalformedError, "a code is a string of digits from 0 to 9, as many as its action has"],
  [TokenMalformedError, "a token of this length is of another version"],
  [TokenMalformedError, "the verifier knows no such action of a token of this length"],
  [TokenMalformedError, "the token's expiry is after the year 9999"],
  [TokenActionError, "the token is for another action"],
  [TokenExpiredError, "the token has expired"],
  [CodeMismatchError, "the code is not this link's"],
  [LinkUncheckableError, "a v1 token is judged only together with its code"],
  [TokenOtherBrowserError, "the link is for another browser"],
  [TokenSignatureError, FOR_PUBLIC_KEY],
  [TokenSignatureError, FOR_SHARED_KEY],
  [TokenSignatureError, KEY_UNKNOWN],
];

function meaning(status: number): readonly [Class, string] {
  const found = refusals[status - 1];
  if (!found) throw new WasmUnavailableError("the module is of another version");
  return found;
}

/** The error of a status other than {@link OK}. */
export function refusal(status: number): VerificationError {
  const [Refusal, message] = meaning(status);
  return new Refusal(message);
}

/** The same as a result. */
export function refused(status: number): Refused {
  return denied(...meaning(status));
}

/** Returns what was proven, or throws the error. */
export function orThrow<Proven>(verdict: Proven | number): Proven {
  if (typeof verdict === "number") throw refusal(verdict);
  return verdict;
}

/** The same as a result. */
export function asResult<Token>(
  verdict: Token | number,
): { readonly ok: true; readonly token: Token } | Refused {
  return typeof verdict === "number" ? refused(verdict) : { ok: true, token: verdict };
}
