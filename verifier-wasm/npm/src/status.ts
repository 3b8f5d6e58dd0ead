import {
  CodeMalformedError,
  CodeRequiredError,
  CodeUncheckableError,
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

interface Class {
  readonly code: VerificationErrorCode;
  new (message: string): VerificationError;
}

/** What the numbers of `verifier-wasm/src/status.rs` mean, from 1 on. */
const refusals: readonly (readonly [Class, string])[] = [
  [TokenMalformedError, "a token of version 1 has 86 characters"],
  [TokenMalformedError, "the token is not base64url without padding in its only accepted spelling"],
  [TokenSignatureError, "the token was not signed by a key of this ring for this action and code"],
  [CodeUncheckableError, "a code was given, but no signature of this token covers one"],
  [CodeRequiredError, "a recovery needs the five-digit code that belongs to it"],
  [CodeMalformedError, "the code is not five digits from 0 to 9"],
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
