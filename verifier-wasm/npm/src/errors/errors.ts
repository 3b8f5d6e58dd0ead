// The classes of the entry `errors`, which all bundles share.

/**
 * Whose fault an error is. `"visitor"`: the token or the code is not valid; tell the visitor so.
 * `"operator"`: the program, its keys or its store are at fault; the link may be valid, so tell the
 * visitor to try again later.
 */
export type ErrorKind = "visitor" | "operator";

/** A class of errors. */
interface Reasoned {
  readonly reason: string;
  readonly kind: ErrorKind;
}

/** The base of all errors of this package. */
export abstract class VerifierError extends Error {
  static readonly kind: ErrorKind = "operator";
  /** Identifies the failure; never changes between versions. */
  declare readonly reason: string;
  /** Whose fault it is. */
  declare readonly kind: ErrorKind;
  /** The address of what to do about it. */
  declare readonly help: string;

  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    const { reason, kind } = new.target as unknown as Reasoned;
    this.reason = reason;
    this.kind = kind;
    // GitHub's anchors are in lower case, as all of this address is.
    this.help =
      `https://github.com/mailroom/mailroom/blob/main/verifier-wasm/npm/errors.md#${reason}`.toLowerCase();
  }

  // On the prototype, so that stack traces begin with it, and made of the reason,
  // which minified programs keep.
  override get name(): string {
    const { reason = "ERR_VERIFIER" } = this.constructor as unknown as Partial<Reasoned>;
    return `${reason
      .slice(3)
      .toLowerCase()
      .replace(/_(.)/g, (_, first) => first.toUpperCase())}Error`;
  }
}

/** The reasons of {@link VerificationError}s. */
export type VerificationReason =
  | "ERR_TOKEN_MALFORMED"
  | "ERR_TOKEN_SIGNATURE"
  | "ERR_TOKEN_ACTION"
  | "ERR_TOKEN_EXPIRED"
  | "ERR_TOKEN_OTHER_BROWSER"
  | "ERR_CODE_UNCHECKABLE"
  | "ERR_CODE_REQUIRED"
  | "ERR_CODE_MALFORMED"
  | "ERR_CODE_MISMATCH"
  | "ERR_LINK_UNCHECKABLE";

/**
 * The token, or the code typed beside it, was refused.
 * This is the visitor's fault, not the program's.
 */
export abstract class VerificationError extends VerifierError {
  static override readonly kind = "visitor";
  declare readonly kind: "visitor";
  declare readonly reason: VerificationReason;
}

/**
 * The string is no token: another length, a character outside base64url, padding, or another
 * spelling of a token.
 */
export class TokenMalformedError extends VerificationError {
  static readonly reason = "ERR_TOKEN_MALFORMED";
  declare readonly reason: typeof TokenMalformedError.reason;
}

/**
 * No key of the ring signed this token for this action and code: forged, altered, signed by a
 * dropped key, and in v1 also a link of another action or a wrong code.
 */
export class TokenSignatureError extends VerificationError {
  static readonly reason = "ERR_TOKEN_SIGNATURE";
  declare readonly reason: typeof TokenSignatureError.reason;
}

/** A genuine link of v2 or v3, for another action. */
export class TokenActionError extends VerificationError {
  static readonly reason = "ERR_TOKEN_ACTION";
  declare readonly reason: typeof TokenActionError.reason;
}

/**
 * A genuine link that is not valid any more; or, thrown by a store, one that would have to be
 * remembered until a time that is over, so that an earlier use may be forgotten.
 */
export class TokenExpiredError extends VerificationError {
  static readonly reason = "ERR_TOKEN_EXPIRED";
  declare readonly reason: typeof TokenExpiredError.reason;
}

/**
 * A genuine link that is bound to another browser than the visitor's:
 * there the visitor has to type its code.
 */
export class TokenOtherBrowserError extends VerificationError {
  static readonly reason = "ERR_TOKEN_OTHER_BROWSER";
  declare readonly reason: typeof TokenOtherBrowserError.reason;
}

/** A code was given, but no code is signed: the action has none, or the format is v3. */
export class CodeUncheckableError extends VerificationError {
  static readonly reason = "ERR_CODE_UNCHECKABLE";
  declare readonly reason: typeof CodeUncheckableError.reason;
}

/** A recovery came without its code. */
export class CodeRequiredError extends VerificationError {
  static readonly reason = "ERR_CODE_REQUIRED";
  declare readonly reason: typeof CodeRequiredError.reason;
}

/**
 * The code does not consist of as many digits from 0 to 9 as its action says: five for a recovery.
 */
export class CodeMalformedError extends VerificationError {
  static readonly reason = "ERR_CODE_MALFORMED";
  declare readonly reason: typeof CodeMalformedError.reason;
}

/** The link is genuine and valid, the code is not the one that belongs to it. */
export class CodeMismatchError extends VerificationError {
  static readonly reason = "ERR_CODE_MISMATCH";
  declare readonly reason: typeof CodeMismatchError.reason;
}

/**
 * A v1 token cannot be judged as a link: it carries no expiry, and a recovery is signed together
 * with its code.
 */
export class LinkUncheckableError extends VerificationError {
  static readonly reason = "ERR_LINK_UNCHECKABLE";
  declare readonly reason: typeof LinkUncheckableError.reason;
}

/** The reasons of {@link RedemptionError}s. */
export type RedemptionReason =
  | "ERR_TOKEN_USED"
  | "ERR_TOO_MANY_ATTEMPTS"
  | "ERR_STORE_FULL"
  | "ERR_STORE_UNAVAILABLE"
  | "ERR_GUARD_UNSUPPORTED";

/** The guard does not let a token through, although the token itself may be good. */
export abstract class RedemptionError extends VerifierError {
  declare readonly reason: RedemptionReason;
}

/** The token was used before. */
export class TokenUsedError extends RedemptionError {
  static override readonly kind = "visitor";
  static readonly reason = "ERR_TOKEN_USED";
  declare readonly reason: typeof TokenUsedError.reason;
}

/** More codes were tried on this link than are allowed. This code was not judged. */
export class TooManyAttemptsError extends RedemptionError {
  static override readonly kind = "visitor";
  static readonly reason = "ERR_TOO_MANY_ATTEMPTS";
  declare readonly reason: typeof TooManyAttemptsError.reason;
}

/**
 * The store is full of tokens that may still be replayed. A store throws it instead of forgetting
 * one of them.
 */
export class StoreFullError extends RedemptionError {
  static readonly reason = "ERR_STORE_FULL";
  declare readonly reason: typeof StoreFullError.reason;
}

/**
 * The store threw, took too long, or gave a wrong answer; `cause` is what it threw. If the store
 * could not release the token either, the token may count as used; the message says so.
 */
export class StoreUnavailableError extends RedemptionError {
  static readonly reason = "ERR_STORE_UNAVAILABLE";
  declare readonly reason: typeof StoreUnavailableError.reason;
}

/** A kind of token that this guard cannot judge as it was made; the message says what to do. */
export class GuardUnsupportedError extends RedemptionError {
  static readonly reason = "ERR_GUARD_UNSUPPORTED";
  declare readonly reason: typeof GuardUnsupportedError.reason;
}

/**
 * A call that the program should not have made: an unknown action, a missing or misspelt option.
 * Where reading an argument threw, `cause` is what was thrown.
 */
export class InvalidArgumentError extends VerifierError {
  static readonly reason = "ERR_INVALID_ARGUMENT";
  declare readonly reason: typeof InvalidArgumentError.reason;
}

/**
 * A key, or the list of keys, cannot be used: another form or kind, none, too many,
 * or the function `keys` threw.
 */
export class KeyInvalidError extends VerifierError {
  static readonly reason = "ERR_KEY_INVALID";
  declare readonly reason: typeof KeyInvalidError.reason;
}

/**
 * A shared key was given in a browser, in a page or a worker, where whoever opens the page could
 * forge links with it.
 */
export class SecretInBrowserError extends VerifierError {
  static readonly reason = "ERR_SECRET_IN_BROWSER";
  declare readonly reason: typeof SecretInBrowserError.reason;
}

/**
 * The WebAssembly module cannot be started here, or is of another version;
 * `cause` is the error of the runtime.
 */
export class WasmUnavailableError extends VerifierError {
  static readonly reason = "ERR_WASM_UNAVAILABLE";
  declare readonly reason: typeof WasmUnavailableError.reason;
}

/**
 * The platform has no WebCrypto here, or no Ed25519 that is as strict as the format; `cause` is the
 * error of the runtime where there is one.
 */
export class PlatformUnavailableError extends VerifierError {
  static readonly reason = "ERR_PLATFORM_UNAVAILABLE";
  declare readonly reason: typeof PlatformUnavailableError.reason;
}

/** What {@link errorOf} needs of a refusal. */
export interface Refusal<Reason> {
  readonly reason: Reason;
  readonly message: string;
}

/** The errors of refusals: those that {@link errorOf} made, or that have a `cause`. */
const errors = /* @__PURE__ */ new WeakMap<object, VerificationError | RedemptionError>();

/**
 * The error that the method without `try` throws where a `try…` method answers this refusal. The
 * same refusal has the same error, with its `cause` where there is one.
 * The error of a copy has no cause.
 *
 * Refusals are plain data, so that they can be serialised, compared and logged; the error and its
 * stack are made only here.
 *
 * @throws InvalidArgumentError when it is given no refusal
 * @example
 * const result = verifier.tryVerify(token, { action: "activate" });
 * if (!result.ok) throw errorOf(result);
 */
export function errorOf(refusal: Refusal<VerificationReason>): VerificationError;
export function errorOf(
  refusal: Refusal<VerificationReason | RedemptionReason>,
): VerificationError | RedemptionError;
export function errorOf(refusal: unknown): VerificationError | RedemptionError {
  const kept = errors.get(refusal as object);
  if (kept) return kept;
  // Listed here, so that bundles that never call this function are without the classes.
  const classes = [
    TokenMalformedError,
    TokenSignatureError,
    TokenActionError,
    TokenExpiredError,
    TokenOtherBrowserError,
    CodeUncheckableError,
    CodeRequiredError,
    CodeMalformedError,
    CodeMismatchError,
    LinkUncheckableError,
    TokenUsedError,
    TooManyAttemptsError,
    StoreFullError,
    StoreUnavailableError,
    GuardUnsupportedError,
  ];
  try {
    const { reason, message } = refusal as Refusal<unknown>;
    const Class = classes.find((Class) => Class.reason === reason);
    if (Class && typeof message === "string")
      return keepError(refusal as object, new Class(message));
  } catch {
    // A value that cannot be read is no refusal.
  }
  throw new InvalidArgumentError(
    "errorOf takes what a method such as tryVerify answered when it refused",
  );
}

/** @internal Lets a refusal have this error. */
export function keepError<Kept extends VerificationError | RedemptionError>(
  refusal: object,
  error: Kept,
): Kept {
  errors.set(refusal, error);
  return error;
}
