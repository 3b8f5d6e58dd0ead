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
  type VerificationErrorCode,
  WasmUnavailableError,
} from "./errors.js";
import type { Refused } from "./types.js";

/** The call did what it was asked to. */
export const OK = 0;
/** This key did not make the tag; another key of the ring may have. */
export const SIGNATURE = 3;
/** A code was given where nothing covers one. */
export const CODE_UNCHECKABLE = 4;
/** There is no code where there has to be one. */
export const CODE_REQUIRED = 5;

/** What is found out about a token before any key is asked. */
export function isMalformed(status: number): boolean {
  return status !== OK && meaning(status)[0] === TokenMalformedError;
}

/** What is found out about the code of a v1 token before any key is asked. */
export function isAboutCode(status: number): boolean {
  return status >= CODE_UNCHECKABLE && status <= 6;
}

interface Class {
  readonly code: VerificationErrorCode;
  new (message: string): VerificationError;
}

/** What the numbers of `verifier-wasm/src/status.rs` mean, from 1 on. */
const refusals: readonly (readonly [Class, string])[] = [
  [TokenMalformedError, "a token has 86, 104, 124 or 147 characters"],
  [TokenMalformedError, "the token is not base64url without padding in its only accepted spelling"],
  [TokenSignatureError, "the token was not signed by a key of this ring for this action and code"],
  [CodeUncheckableError, "a code was given, but nothing that was signed covers one"],
  [CodeRequiredError, "a recovery needs the five-digit code that belongs to it"],
  [CodeMalformedError, "the code is not five digits from 0 to 9"],
  [TokenMalformedError, "a token of this length is of another version"],
  [TokenMalformedError, "a token of this length and version has another action"],
  [TokenMalformedError, "the token's expiry is after the year 9999"],
  [TokenActionError, "the token is for the other action"],
  [TokenExpiredError, "the token is not valid any more"],
  [CodeMismatchError, "the code is not the one that belongs to this link"],
  [LinkUncheckableError, "a v1 token can be judged only together with its code, not as a link"],
];

function meaning(status: number): readonly [Class, string] {
  const found = refusals[status - 1];
  if (!found) throw new WasmUnavailableError("the module is of another version of mailroom-verifier");
  return found;
}

/** The error that a number other than {@link OK} stands for. */
export function refusal(status: number): VerificationError {
  const [Refusal, message] = meaning(status);
  return new Refusal(message);
}

/** The same as a result. */
export class RefusedToken implements Refused {
  readonly #status: number;
  readonly #code: VerificationErrorCode;

  constructor(status: number) {
    this.#status = status;
    this.#code = meaning(status)[0].code;
  }

  get ok(): false {
    return false;
  }

  get code(): VerificationErrorCode {
    return this.#code;
  }

  get error(): VerificationError {
    return refusal(this.#status);
  }
}
