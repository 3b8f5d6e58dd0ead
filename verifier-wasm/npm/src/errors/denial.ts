import {
  type ErrorKind,
  keepError,
  type RedemptionError,
  type RedemptionReason,
  type VerificationError,
  type VerificationReason,
} from "./errors.js";

/**
 * What {@link Guard.tryRedeem} answers when the token is not let through:
 * a plain object, as {@link Refused} is.
 */
export interface RefusedRedemption {
  readonly ok: false;
  /** Why, in a word that never changes. */
  readonly reason: VerificationReason | RedemptionReason;
  /** Whose fault it is: tell the visitor "this link is not valid" only for `"visitor"`. */
  readonly kind: ErrorKind;
  /**
   * Why, in a sentence, for logs. It shows nothing of the token. What the store threw is the
   * `cause` of what `errorOf` makes.
   */
  readonly message: string;
}

/** @internal A class of errors. */
export interface ErrorClass<Reason, Kind, Failure> {
  readonly reason: Reason;
  readonly kind: Kind;
  new (message: string, options?: ErrorOptions): Failure;
}

/** @internal The error of a class, as a result. */
export interface Denied<Reason, Kind> {
  readonly ok: false;
  readonly reason: Reason;
  readonly kind: Kind;
  readonly message: string;
}

/** @internal The error of a class, as a result. */
export function denied<Reason, Kind, Failure extends VerificationError | RedemptionError>(
  Denial: ErrorClass<Reason, Kind, Failure>,
  message: string,
  cause?: ErrorOptions,
): Denied<Reason, Kind> {
  const { reason, kind } = Denial;
  const result = { ok: false, reason, kind, message } as const;
  if (cause) keepError(result, new Denial(message, cause));
  return result;
}

/** @internal An error that was thrown, as a result. */
export function deniedBy<Reason, Kind>(
  error: (VerificationError | RedemptionError) & { readonly reason: Reason; readonly kind: Kind },
): Denied<Reason, Kind> {
  const { reason, kind, message } = error;
  const result = { ok: false, reason, kind, message } as const;
  keepError(result, error);
  return result;
}

/** @internal A reason in words, `token expired`: the message of an error that says no more. */
export function wordsOf(reason: string): string {
  return reason.slice(4).toLowerCase().replaceAll("_", " ");
}
