/**
 * Every error of this package, one class for each stable `code`. All entries share this module, so `instanceof` works
 * whichever of them threw. No message contains a token, a secret, a code or a key.
 *
 * @module
 */

/** The base of all errors of this package. */
export abstract class VerifierError extends Error {
  abstract override readonly name: string;
  /** Tells the failures apart; never changes between versions. */
  abstract readonly code: string;
}

/** The codes of {@link VerificationError}s. */
export type VerificationErrorCode =
  | "ERR_TOKEN_MALFORMED"
  | "ERR_TOKEN_SIGNATURE"
  | "ERR_CODE_UNCHECKABLE"
  | "ERR_CODE_REQUIRED"
  | "ERR_CODE_MALFORMED";

/** The token, or the code typed beside it, is not good for what was expected. The visitor's fault, not the program's. */
export abstract class VerificationError extends VerifierError {
  abstract override readonly code: VerificationErrorCode;
}

/** The string is no token: another length, a character outside base64url, padding, or another spelling of a token. */
export class TokenMalformedError extends VerificationError {
  static readonly code = "ERR_TOKEN_MALFORMED";
  override readonly code = TokenMalformedError.code;
  override readonly name = "TokenMalformedError";
}

/**
 * No key of the ring signed this token for this action and code: forged, altered, signed by a dropped key, and in v1
 * also a link of the other action or a wrong code.
 */
export class TokenSignatureError extends VerificationError {
  static readonly code = "ERR_TOKEN_SIGNATURE";
  override readonly code = TokenSignatureError.code;
  override readonly name = "TokenSignatureError";
}

/** A code was given with an activation, where nothing covers one, so it could not have been checked. */
export class CodeUncheckableError extends VerificationError {
  static readonly code = "ERR_CODE_UNCHECKABLE";
  override readonly code = CodeUncheckableError.code;
  override readonly name = "CodeUncheckableError";
}

/** A recovery came without its code. */
export class CodeRequiredError extends VerificationError {
  static readonly code = "ERR_CODE_REQUIRED";
  override readonly code = CodeRequiredError.code;
  override readonly name = "CodeRequiredError";
}

/** The code is not five digits from 0 to 9. */
export class CodeMalformedError extends VerificationError {
  static readonly code = "ERR_CODE_MALFORMED";
  override readonly code = CodeMalformedError.code;
  override readonly name = "CodeMalformedError";
}

/**
 * A call that the program should not have made: a token or a code that is no string, an unknown action, a missing or
 * misspelt option. Where reading an argument threw, `cause` is what was thrown.
 */
export class InvalidArgumentError extends VerifierError {
  static readonly code = "ERR_INVALID_ARGUMENT";
  override readonly code = InvalidArgumentError.code;
  override readonly name = "InvalidArgumentError";
}

/** A key is neither 64 hexadecimal characters nor 32 bytes, or there is none. */
export class KeyInvalidError extends VerifierError {
  static readonly code = "ERR_KEY_INVALID";
  override readonly code = KeyInvalidError.code;
  override readonly name = "KeyInvalidError";
}

/** A shared key was given in a browser window, where whoever can read the page could forge links with it. */
export class SecretInBrowserError extends VerifierError {
  static readonly code = "ERR_SECRET_IN_BROWSER";
  override readonly code = SecretInBrowserError.code;
  override readonly name = "SecretInBrowserError";
}

/** The WebAssembly module cannot be started here, or is of another version; `cause` is what the runtime says. */
export class WasmUnavailableError extends VerifierError {
  static readonly code = "ERR_WASM_UNAVAILABLE";
  override readonly code = WasmUnavailableError.code;
  override readonly name = "WasmUnavailableError";
}
