// What an adapter is inside: how a function of the database is called, and how transactions are.

import { described } from "../arguments/described.js";
import { InvalidArgumentError } from "../errors/errors.js";
import { type Call, type Statement, statementOf } from "./call.js";
import { reported } from "./failure.js";

declare const transaction: unique symbol;
declare const statements: unique symbol;

/** A client of the database that can do several things in one transaction. */
export interface TransactionAdapter<Transaction> {
  /** Nothing at run time. */
  readonly [transaction]: (given: Transaction) => Transaction;
}

/** A client that sends one statement at a time, each of which is a transaction. */
export interface StatementAdapter {
  /** Nothing at run time. */
  readonly [statements]: true;
}

/** Calls a function of the database, and answers the one value that it returns. */
export type Caller = (call: Call) => Promise<unknown>;

/** Runs a statement, and answers the one value of its one row. */
export type Runner = (statement: Statement) => Promise<unknown>;

/** @internal What stands behind an adapter. */
export interface Driver {
  /** What the adapter was made of, which is no transaction. */
  readonly client: unknown;
  /** Each call by itself. */
  readonly alone: Caller;
  readonly transactions?: Transactions;
}

/** @internal */
export interface Transactions {
  /** Runs statements in a transaction of the caller's; throws for what is none. */
  readonly inside: (transaction: unknown) => Runner;
  /** Does work in a transaction of its own, which is rolled back if the work throws. */
  readonly transact: <Result>(work: (transaction: unknown) => Promise<Result>) => Promise<Result>;
}

/** @internal Calls functions by statements. */
export const byStatements =
  (run: Runner): Caller =>
  (call) =>
    run(statementOf(call));

/**
 * @internal Runs statements by a method of a client, which is given a text and values. Answers
 * rows, or an object that has them.
 */
export function runnerOf(query: (text: string, values: string[]) => unknown): Runner {
  return async ({ text, values }) => {
    let answer: unknown;
    try {
      answer = await query(text, values);
    } catch (error) {
      throw reported(error);
    }
    const rows: unknown = Array.isArray(answer)
      ? answer
      : (answer as { rows?: unknown } | null | undefined)?.rows;
    if (!Array.isArray(rows) || rows.length !== 1 || typeof rows[0] !== "object") {
      throw new InvalidArgumentError(
        `the client of the database answered with ${described(answer)}, not with one row`,
      );
    }
    // By its place, since some clients can be told to write the names of columns otherwise.
    return Object.values((rows[0] as object | null) ?? {})[0];
  };
}

const drivers = /* @__PURE__ */ new WeakMap<object, Driver>();

/** @internal */
export function adapterOf<Adapter>(driver: Driver): Adapter {
  const adapter = Object.freeze(Object.create(null) as object);
  drivers.set(adapter, driver);
  return adapter as Adapter;
}

/** @internal */
export function driverOf(adapter: unknown): Driver {
  const driver = drivers.get(adapter as object);
  if (driver) return driver;
  throw new InvalidArgumentError(
    `createMailroom takes an adapter, such as pg(pool), not ${described(adapter)}`,
  );
}
