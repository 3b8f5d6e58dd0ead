// What clients throw, each in its own way.

import { VerifierError } from "../errors/errors.js";

/**
 * What a function of the database fails with: the client's error without what was asked, which may
 * be a secret, a code or an address.
 */
export interface DatabaseError extends Error {
  readonly name: "DatabaseError";
  /** PostgreSQL's SQLSTATE where the server said it, or the client's own code. */
  readonly code: string | undefined;
}

interface Thrown {
  readonly message?: unknown;
  readonly code?: unknown;
  /** Where Bun has what PostgreSQL says. */
  readonly errno?: unknown;
  readonly cause?: unknown;
  /** What Neon's driver calls a cause. */
  readonly sourceError?: unknown;
}

/** Of PostgreSQL's appendix A, and of functions that raise their own. */
const SQLSTATE = /^(?:\d[\dA-Z]|F0|HV|M[A-Z]|P0|XX)[\dA-Z]{3}$/;

/** How many causes are looked at. */
const DEEPEST = 5;

/** The error and its causes. */
function chainOf(error: unknown): Thrown[] {
  const chain: Thrown[] = [];
  let at = error;
  while (typeof at === "object" && at !== null && chain.length < DEEPEST) {
    chain.push(at as Thrown);
    at = (at as Thrown).cause ?? (at as Thrown).sourceError;
  }
  return chain;
}

/** What PostgreSQL said, if it said something. */
export function sqlStateOf(error: unknown): string | undefined {
  try {
    for (const { code, errno } of chainOf(error)) {
      for (const value of [errno, code])
        if (typeof value === "string" && SQLSTATE.test(value)) return value;
    }
  } catch {
    // What cannot be read is no error of a client.
  }
  return undefined;
}

/** The code of the client's or of the runtime's own, such as `ECONNREFUSED`. */
function codeOf(error: unknown): string | undefined {
  for (const { code } of chainOf(error))
    if (typeof code === "string" && /^\w{1,64}$/.test(code)) return code;
  return undefined;
}

/** What helps where the database has no schema of Mailroom. */
const UNMADE = ": has mailroom dev or mailroom migrate up run there?";

/** @internal The error that is thrown in the place of a client's. */
export function reported(error: unknown): Error {
  if (error instanceof VerifierError || isReported(error)) return error;
  let message = "the client of the database threw something that cannot be read";
  let code: string | undefined;
  try {
    const chain = chainOf(error);
    code = sqlStateOf(error) ?? codeOf(error);
    // The outer ones are of query builders, and quote the values of the statement.
    const source =
      chain.find((one) => code !== undefined && (one.code === code || one.errno === code)) ??
      chain.at(-1);
    message = String(source?.message ?? "") || (code ?? "the client of the database failed");
    // Of the statements that are reported here no other schema is the subject.
    if (code === "3F000") message += UNMADE;
  } catch {
    // It says what it says.
  }
  const own = Object.assign(new Error(message), { code });
  Object.defineProperty(own, "name", { value: "DatabaseError", configurable: true });
  made.add(own);
  return own;
}

const made = /* @__PURE__ */ new WeakSet<object>();

function isReported(error: unknown): error is DatabaseError {
  return made.has(error as object);
}

// What errors mean, of crates/connect/src/sqlstate.rs; its documentation says how they are written.
const REPEATABLE = ["40001", "40P01"];
const UNDONE = /^(?:08001|08004|25006|40000|40001|40002|40P01|53|55006|55P03|57014|57P03)/;
const UNKNOWN = /^(?:08|40003|57P01|57P02|57P05|58)/;

/** Whether the whole transaction was taken back, and may go well when it is done again. */
export function isRepeatable(error: unknown): boolean {
  return REPEATABLE.includes(sqlStateOf(error) ?? "");
}

const UNSENT = new Set([
  ...["EAI_AGAIN", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ENOENT", "ENOTFOUND"],
  ...["CONNECT_TIMEOUT", "CONNECTION_ENDED", "UND_ERR_CONNECT_TIMEOUT"],
  // PostgREST has no connection to the database.
  ...["PGRST000", "PGRST001", "PGRST002", "PGRST003"],
  // `mailroom serve` has none, or was asked too often.
  ...["MAILROOM_AWAY", "MAILROOM_RATE"],
]);

/**
 * Whether nothing was done by a statement that is a transaction by itself: it was not sent, or the
 * server has refused it. Of a connection that was lost meanwhile nobody knows.
 */
export function isUndone(error: unknown): boolean {
  try {
    const state = sqlStateOf(error);
    return state === undefined
      ? UNSENT.has(codeOf(error) ?? "")
      : UNDONE.test(state) || !UNKNOWN.test(state);
  } catch {
    return false;
  }
}
