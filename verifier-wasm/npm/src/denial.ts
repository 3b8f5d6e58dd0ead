import type {
  ErrorKind,
  RedemptionError,
  RedemptionReason,
  VerificationError,
  VerificationReason,
} from "./errors.js";

/** What {@link Guard.tryRedeem} answers when the token is not let through: a plain object, as {@link Refused} is. */
export interface RefusedRedemption {
  readonly ok: false;
  /** Why, in a word that never changes. */
  readonly reason: VerificationReason | RedemptionReason;
  /** Whose fault it is: only of the visitor's is "this link is not valid" true. */
  readonly kind: ErrorKind;
  /** Why, in a sentence, for logs. It shows nothing of the token. */
  readonly message: string;
  /**
   * What `redeem` throws, with its `cause`, where there is one. It is made when it is asked for, once, and is not
   * enumerable: copies of the result do not have it.
   */
  readonly error: VerificationError | RedemptionError;
}

/** @internal A class of errors. */
export interface ErrorClass<Reason, Kind, Failure> {
  readonly reason: Reason;
  readonly kind: Kind;
  new (message: string, options?: ErrorOptions): Failure;
}

/** @internal The error of a class, as a result. */
export interface Denied<Reason, Kind, Failure> {
  readonly ok: false;
  readonly reason: Reason;
  readonly kind: Kind;
  readonly message: string;
  readonly error: Failure;
}

/** The errors of results that have been asked for theirs, or how to make them. */
const errors = new WeakMap<object, Error>();
const options = new WeakMap<object, ErrorOptions>();

/** The classes of which there were results. */
const classes = new Map<unknown, ErrorClass<unknown, unknown, Error>>();

/** One getter for all results: engines are slow with objects of which each has its own. */
const ERROR: PropertyDescriptor = {
  get(this: Denied<unknown, unknown, Error>): Error | undefined {
    const Denial = classes.get(this.reason);
    const error = errors.get(this) ?? (Denial && new Denial(this.message, options.get(this)));
    if (error) errors.set(this, error);
    return error;
  },
};

/** @internal The error of a class, as a result. */
export function denied<Reason, Kind, Failure extends Error>(
  Denial: ErrorClass<Reason, Kind, Failure>,
  message: string,
  cause?: ErrorOptions,
): Denied<Reason, Kind, Failure> {
  const { reason, kind } = Denial;
  classes.set(reason, Denial);
  const result = Object.defineProperty({ ok: false, reason, kind, message }, "error", ERROR);
  if (cause) options.set(result, cause);
  return result as Denied<Reason, Kind, Failure>;
}

/** @internal An error that was thrown, as a result. */
export function deniedBy<Reason, Kind, Failure extends Error>(
  error: Failure & { readonly reason: Reason; readonly kind: Kind },
): Denied<Reason, Kind, Failure> {
  const Denial = error.constructor as unknown as ErrorClass<Reason, Kind, Failure>;
  const result = denied(Denial, error.message);
  errors.set(result, error);
  return result;
}
