// The arguments of the functions, as texts for the server.

import { isBytes } from "../arguments/bytes.js";
import { described } from "../arguments/described.js";
import { InvalidArgumentError } from "../errors/errors.js";
import { hexadecimal } from "../stores/base.js";

/** What no text of PostgreSQL can have: the character NUL, and half of a surrogate pair. */
const UNSENDABLE = /[\0\p{Surrogate}]/u;

function fault(name: string, rule: string, value: unknown): InvalidArgumentError {
  return new InvalidArgumentError(`the option ${name} must be ${rule}, not ${described(value)}`);
}

/** A text of the application's, which has to be there. */
export function demandText(value: unknown, name: string): string {
  if (typeof value === "string" && value !== "" && !UNSENDABLE.test(value)) return value;
  throw fault(name, "a text", typeof value === "string" ? undefined : value);
}

/** The same, or nothing: `null`, as rows have it, is nothing, too. */
export function readText(value: unknown, name: string): string | undefined {
  return value === undefined || value === null ? undefined : demandText(value, name);
}

/**
 * A text that a visitor sent, which may be anything. What cannot be sent becomes a character that
 * is no code, no address and no name.
 */
export function readSent(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw fault(name, "a text", value);
  return UNSENDABLE.test(value) ? "\u{fffd}" : value;
}

/**
 * The trace that a mail belongs to. What is none is ignored, whatever it is: a caller whose tracing
 * is broken still gets its mail.
 */
export function readTraceparent(value: unknown): string | undefined {
  const valid = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
  return typeof value === "string" && valid.test(value) ? value : undefined;
}

/** Bytes, as hexadecimal digits. */
export function demandBytes(value: unknown, name: string, length: number): string {
  if (isBytes(value, length)) return hexadecimal(value);
  throw fault(name, `a Uint8Array of ${length} bytes`, value);
}

export function readBytes(value: unknown, name: string, length: number): string | undefined {
  return value === undefined || value === null ? undefined : demandBytes(value, name, length);
}

export function readFlag(value: unknown, name: string): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "boolean") return String(value);
  throw fault(name, "true or false", value);
}

/** A time, of any realm. */
export function readDate(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  try {
    return new Date(Date.prototype.getTime.call(value)).toISOString();
  } catch {
    throw fault(name, "a Date", value);
  }
}

/** A value as JSON. */
export function readJson(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  let written: unknown;
  try {
    written = JSON.stringify(value);
  } catch (cause) {
    throw new InvalidArgumentError(`the option ${name} cannot be written as JSON`, { cause });
  }
  if (typeof written === "string") return written;
  throw fault(name, "a value of JSON", value);
}

/** The longest time that limits look back, in seconds: 31 days. */
const LONGEST = 2_678_400;

export function readInterval(value: unknown, name: string): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && value >= 0 && value <= LONGEST)
    return `${value.toFixed(6)} seconds`;
  throw fault(name, `a number of seconds from 0 to ${LONGEST}`, value);
}

export function readCount(value: unknown, name: string): string | undefined {
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 31)
    return String(value);
  throw fault(name, "a whole number from 1", value);
}

/** The id of a token: a decimal text, as `enqueue` answers, or a bigint. */
export function demandToken(value: unknown): string {
  const written = typeof value === "bigint" ? String(value) : value;
  if (typeof written === "string" && /^[1-9]\d{0,18}$/.test(written)) return written;
  throw new InvalidArgumentError(
    `a token is named by what enqueue has answered, not by ${described(value)}`,
  );
}
