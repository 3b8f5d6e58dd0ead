/**
 * Every error of this package, one class for each stable `code`. All entries share this module, so `instanceof` works
 * whichever of them threw. No message contains a token, a secret, a code or a key.
 *
 * @module
 */

/** The base of all errors of this package. */
export abstract class VerifierError extends Error {
  /** Tells the failures apart; never changes between versions. */
  readonly code: string;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = (new.target as unknown as { readonly code: string }).code;
  }

  // On the prototype and spelt out, so that stack traces begin with it and minified programs keep it.
  abstract override get name(): string;
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
  declare readonly code: VerificationErrorCode;
}

/** The string is no token: another length, a character outside base64url, padding, or another spelling of a token. */
export class TokenMalformedError extends VerificationError {
  static readonly code = "ERR_TOKEN_MALFORMED";
  declare readonly code: typeof TokenMalformedError.code;

  override get name(): string {
    return "TokenMalformedError";
  }
}

/**
 * No key of the ring signed this token for this action and code: forged, altered, signed by a dropped key, and in v1
 * also a link of the other action or a wrong code.
 */
export class TokenSignatureError extends VerificationError {
  static readonly code = "ERR_TOKEN_SIGNATURE";
  declare readonly code: typeof TokenSignatureError.code;

  override get name(): string {
    return "TokenSignatureError";
  }
}

/** A code was given with an activation, where nothing covers one, so it could not have been checked. */
export class CodeUncheckableError extends VerificationError {
  static readonly code = "ERR_CODE_UNCHECKABLE";
  declare readonly code: typeof CodeUncheckableError.code;

  override get name(): string {
    return "CodeUncheckableError";
  }
}

/** A recovery came without its code. */
export class CodeRequiredError extends VerificationError {
  static readonly code = "ERR_CODE_REQUIRED";
  declare readonly code: typeof CodeRequiredError.code;

  override get name(): string {
    return "CodeRequiredError";
  }
}

/** The code is not five digits from 0 to 9. */
export class CodeMalformedError extends VerificationError {
  static readonly code = "ERR_CODE_MALFORMED";
  declare readonly code: typeof CodeMalformedError.code;

  override get name(): string {
    return "CodeMalformedError";
  }
}

/**
 * A call that the program should not have made: a token or a code that is no string, an unknown action, a missing or
 * misspelt option. Where reading an argument threw, `cause` is what was thrown.
 */
export class InvalidArgumentError extends VerifierError {
  static readonly code = "ERR_INVALID_ARGUMENT";
  declare readonly code: typeof InvalidArgumentError.code;

  override get name(): string {
    return "InvalidArgumentError";
  }
}

/** A key is neither 64 hexadecimal characters nor 32 bytes, or there is none. */
export class KeyInvalidError extends VerifierError {
  static readonly code = "ERR_KEY_INVALID";
  declare readonly code: typeof KeyInvalidError.code;

  override get name(): string {
    return "KeyInvalidError";
  }
}

/** A shared key was given in a browser window, where whoever can read the page could forge links with it. */
export class SecretInBrowserError extends VerifierError {
  static readonly code = "ERR_SECRET_IN_BROWSER";
  declare readonly code: typeof SecretInBrowserError.code;

  override get name(): string {
    return "SecretInBrowserError";
  }
}

/** The WebAssembly module cannot be started here, or is of another version; `cause` is what the runtime says. */
export class WasmUnavailableError extends VerifierError {
  static readonly code = "ERR_WASM_UNAVAILABLE";
  declare readonly code: typeof WasmUnavailableError.code;

  override get name(): string {
    return "WasmUnavailableError";
  }
}
