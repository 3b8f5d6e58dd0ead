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

interface Class {
  readonly code: RefusedRedemption["code"];
  new (message: string, options?: ErrorOptions): RefusedRedemption["error"];
}

/** @internal The error of a class, as a result. */
export function denied(Denial: Class, message: string, options?: ErrorOptions): RefusedRedemption {
  return new Denied(() => new Denial(message, options), Denial.code);
}

/** @internal An error that somebody else made, as a result. */
export function deniedBy(error: RefusedRedemption["error"]): RefusedRedemption {
  return new Denied(() => error, error.code);
}

class Denied implements RefusedRedemption {
  readonly #make: () => RefusedRedemption["error"];
  readonly #code: RefusedRedemption["code"];

  constructor(make: () => RefusedRedemption["error"], code: RefusedRedemption["code"]) {
    this.#make = make;
    this.#code = code;
  }

  get ok(): false {
    return false;
  }

  get code(): RefusedRedemption["code"] {
    return this.#code;
  }

  get error(): RefusedRedemption["error"] {
    return this.#make();
  }
}
