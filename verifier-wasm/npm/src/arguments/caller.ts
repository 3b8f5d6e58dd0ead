import { VerifierError } from "../errors/errors.js";

/** The part of V8's `Error` that others do not have. */
interface Capturing {
  captureStackTrace?(error: object, above: unknown): void;
}

/**
 * What `act` returns; the stack of an error of this package that it throws begins where the public
 * function `above` was called, where the engine can do that.
 */
export function atCaller<Result>(above: unknown, act: () => Result): Result {
  try {
    return act();
  } catch (error) {
    try {
      if (error instanceof VerifierError) (Error as Capturing).captureStackTrace?.(error, above);
    } catch {
      // A proxy, thrown by a clock, that throws when it is inspected.
    }
    throw error;
  }
}
