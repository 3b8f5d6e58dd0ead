import { InvalidArgumentError } from "../errors/errors.js";
import { atOnce } from "./callbacks.js";

/**
 * The last second of the year 9999, the latest expiry of a token.
 * Times in milliseconds are beyond it.
 */
const LAST_SECOND = 253_402_300_799;

/** The largest clock tolerance that a verifier may have, in seconds. */
export const MAX_CLOCK_TOLERANCE = 999;

/** Tells the time in seconds since the Unix epoch. */
export type Clock = () => number;

/** What a number of seconds is for, and how many there may be. */
interface Span {
  readonly name: string;
  readonly least: number;
  readonly most: number;
}

/** An option that is a span of time in seconds. */
export function readSpan(value: unknown, { name, least, most }: Span): number {
  if (typeof value !== "number" || !(value >= least && value <= most)) {
    throw new InvalidArgumentError(
      `the option ${name} must be a number of seconds from ${least} to ${most}`,
    );
  }
  return value;
}

/** An argument that is a point in time. */
export function readTime(value: unknown, name: string): number {
  if (typeof value !== "number" || !(value >= 0 && value <= LAST_SECOND)) {
    throw new InvalidArgumentError(
      `${name} must be a time in seconds since the Unix epoch, not in milliseconds`,
    );
  }
  return value;
}

/** The option `clock`; the time by it is read at each call, and judged each time. */
export function readClock(clock: unknown): Clock {
  if (clock === undefined) return () => Date.now() / 1000;
  if (typeof clock !== "function")
    throw new InvalidArgumentError("the option clock must be a function");
  return () => {
    let now: unknown;
    try {
      now = atOnce(clock);
    } catch (cause) {
      throw new InvalidArgumentError("the clock cannot be read", { cause });
    }
    return readTime(now, "what the clock returns");
  };
}
