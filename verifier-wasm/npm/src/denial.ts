import type {
  RedemptionError,
  RedemptionErrorCode,
  VerificationError,
  VerificationErrorCode,
} from "./errors.js";

/** What {@link Guard.tryRedeem} answers when the token is not let through. */
export interface RefusedRedemption {
  readonly ok: false;
  /** Why, in a word. */
  readonly code: VerificationErrorCode | RedemptionErrorCode;
  /** What `redeem` throws. Made when it is asked for: a stack trace takes longer than refusing a token. */
  readonly error: VerificationError | RedemptionError;
}

/** @internal A class of errors, which has a code. */
export interface ErrorClass<Code, Failure> {
  readonly code: Code;
  new (message: string, options?: ErrorOptions): Failure;
}

/** @internal The error of a class, as a result. */
export function denied<Code extends string, Failure extends Error>(
  Denial: ErrorClass<Code, Failure>,
  message: string,
  options?: ErrorOptions,
): Denied<Code, Failure> {
  return new Denied(Denial.code, () => new Denial(message, options));
}

/** @internal What is not let through; the getters keep the error from being made, and the result from being changed. */
export class Denied<Code, Failure> {
  readonly #code: Code;
  readonly #make: () => Failure;

  constructor(code: Code, make: () => Failure) {
    this.#code = code;
    this.#make = make;
  }

  get ok(): false {
    return false;
  }

  get code(): Code {
    return this.#code;
  }

  get error(): Failure {
    return this.#make();
  }
}
