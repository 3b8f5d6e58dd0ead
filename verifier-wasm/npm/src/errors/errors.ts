// What the entry `errors` exports, which all bundles share.

import type { RedemptionError, VerificationError } from "./base.js";
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

/** @internal Lets a refusal have this error. */
export function keepError<Kept extends VerificationError | RedemptionError>(
  refusal: object,
  error: Kept,
): Kept {
  errors.set(refusal, error);
  return error;
}
