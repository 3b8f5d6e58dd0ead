import type { RedemptionError, RedemptionReason, VerificationError, VerificationReason } from "./errors.js";

/** What {@link Guard.tryRedeem} answers when the token is not let through. */
export interface RefusedRedemption {
  readonly ok: false;
  /** Why, in a word. */
  readonly reason: VerificationReason | RedemptionReason;
  /** What `redeem` throws. Made when it is asked for: a stack trace takes longer than refusing a token. */
  readonly error: VerificationError | RedemptionError;
}

/** @internal A class of errors, which has a reason. */
export interface ErrorClass<Reason, Failure> {
  readonly reason: Reason;
  new (message: string, options?: ErrorOptions): Failure;
}

/** @internal The error of a class, as a result. */
export function denied<Reason extends string, Failure extends Error>(
  Denial: ErrorClass<Reason, Failure>,
  message: string,
  options?: ErrorOptions,
): Denied<Reason, Failure> {
  return new Denied(Denial.reason, () => new Denial(message, options));
}

/** @internal What is not let through; the getters keep the error from being made, and the result from being changed. */
export class Denied<Reason, Failure> {
  readonly #reason: Reason;
  readonly #make: () => Failure;

  constructor(reason: Reason, make: () => Failure) {
    this.#reason = reason;
    this.#make = make;
  }

  get ok(): false {
    return false;
  }

  get reason(): Reason {
    return this.#reason;
  }

  get error(): Failure {
    return this.#make();
  }
}
