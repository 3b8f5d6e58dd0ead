// What the entry `errors` exports, which all bundles share.

import type { RedemptionError, VerificationError } from "./base.js";
import { explanation } from "./explaining.js";
import {
  InvalidArgumentError,
  type RedemptionReason,
  type VerificationReason,
} from "./generated/classes.js";
import { refusalClasses } from "./generated/refusals.js";

export * from "./base.js";
export * from "./generated/classes.js";

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
  try {
    const { reason, message } = refusal as Refusal<unknown>;
    const Class = refusalClasses().find((Class) => Class.reason === reason);
    if (Class && typeof message === "string")
      return keepError(refusal as object, new Class(message));
  } catch {
    // A value that cannot be read is no refusal.
  }
  throw new InvalidArgumentError(
    "errorOf takes what a method such as tryVerify answered when it refused",
  );
}

/**
 * What an error or a refusal of this package means, and what to do about it, in a sentence or two
 * for logs. Messages themselves are short, since every page and Worker loads their bytes; this text
 * is loaded by those who call this. It shows nothing of a token, a code or a key.
 *
 * @throws InvalidArgumentError when it is given something else
 * @example
 * const onError = (error: unknown) =>
 *   console.error(error instanceof VerifierError ? explain(error) : error);
 */
export function explain(failure: Refusal<string>): string {
  try {
    const { reason, message } = failure;
    if (/^ERR_[A-Z_0-9]{3,40}$/.test(reason) && typeof message === "string")
      return explanation({ reason, message });
  } catch {
    // A value that cannot be read is none.
  }
  throw new InvalidArgumentError("explain takes an error or a refusal of this package");
}

/** @internal Lets a refusal have this error. */
export function keepError<Kept extends VerificationError | RedemptionError>(
  refusal: object,
  error: Kept,
): Kept {
  errors.set(refusal, error);
  return error;
}
