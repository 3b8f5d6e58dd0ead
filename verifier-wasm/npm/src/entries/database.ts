/**
 * Mailroom's functions in PostgreSQL, through the client that you have, and in its transactions:
 * makes mails, uses links.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import type { StatementAdapter, TransactionAdapter } from "../database/adapter.js";
import {
  type DrizzleDatabase,
  makeDrizzle,
  type TransactionOfDrizzle,
} from "../database/adapters/drizzle.js";
import { type HttpOptions, makeHttp } from "../database/adapters/http.js";
import {
  type KyselyDatabase,
  makeKysely,
  type TransactionOfKysely,
} from "../database/adapters/kysely.js";
import { makeNeon, type NeonFunction } from "../database/adapters/neon.js";
import { type ClientOfPg, makePg, type PgPool } from "../database/adapters/pg.js";
import {
  makeSql,
  type SqlFunction,
  type TransactionOfSql,
} from "../database/adapters/postgres_js.js";
import { makePostgrest, type PostgrestOptions } from "../database/adapters/postgrest.js";
import {
  insideOf,
  type Mailroom,
  type MailroomFunctions,
  type MailroomOptions,
  makeMailroom,
} from "../database/mailroom.js";
import { type Effects, makeRedeem, type RedeemFunction } from "../database/redeeming.js";

export type { StatementAdapter, TransactionAdapter } from "../database/adapter.js";
export type { DrizzleDatabase, TransactionOfDrizzle } from "../database/adapters/drizzle.js";
export type { HttpOptions } from "../database/adapters/http.js";
export type { KyselyDatabase, TransactionOfKysely } from "../database/adapters/kysely.js";
export type { NeonFunction } from "../database/adapters/neon.js";
export type { ClientOfPg, PgPool } from "../database/adapters/pg.js";
export type { SqlFunction, TransactionOfSql } from "../database/adapters/postgres_js.js";
export type { PostgrestOptions } from "../database/adapters/postgrest.js";
export type { DatabaseError } from "../database/failure.js";
export type {
  DatabaseVerdict,
  Mail,
  MailRequest,
  Mailroom,
  MailroomFunctions,
  MailroomOptions,
  Redeemed,
  Redeeming,
  Renewing,
} from "../database/mailroom.js";
export type { Effect, Effects, RedeemFunction, UsedLink } from "../database/redeeming.js";
export type { Away, Verdict } from "../handler/judgement.js";
export type { Again, RedeemableLink } from "../handler/options.js";
export { FURTHER_ACTIONS, SHIPPED_ACTIONS, type ShippedAction } from "../token/shipped.js";

/**
 * The functions of the database by an adapter for your client: {@link pg} and the others here.
 *
 * @throws InvalidArgumentError
 * @example
 * const mailroom = createMailroom(pg(pool));
 * // The client of a transaction.
 * await mailroom.in(client).enqueue({ action: "activate", recipientEmail, subjectId });
 */
export function createMailroom<Transaction, Further extends string = never>(
  adapter: TransactionAdapter<Transaction>,
  options?: MailroomOptions<Further>,
): Mailroom<Transaction, Further>;
export function createMailroom<Further extends string = never>(
  adapter: StatementAdapter,
  options?: MailroomOptions<Further>,
): MailroomFunctions<Further>;
export function createMailroom(adapter: unknown, options?: unknown): unknown {
  return atCaller(createMailroom, () => makeMailroom(adapter, options));
}

/**
 * The `redeem` of a link handler. It uses the link and calls the effect of its action in one
 * transaction, and commits every verdict; if the effect throws or answers `{ again }`, all is
 * rolled back, and the link is given back. Where the database is away, the visitor is asked to try
 * again, and the handler's `onError` gets why.
 *
 * Without effects it uses the link by one statement; adapters without transactions can do no more.
 *
 * @throws InvalidArgumentError
 * @example
 * const redeem = redeemWith(mailroom, {
 *   activate: (client, id) => client.query("UPDATE users SET verified = true WHERE id = $1", [id]),
 * });
 */
export function redeemWith<Transaction, Further extends string = never>(
  mailroom: Mailroom<Transaction, Further>,
  effects: Effects<Transaction, Further>,
): RedeemFunction;
export function redeemWith(mailroom: MailroomFunctions<string>): RedeemFunction;
export function redeemWith(mailroom: unknown, effects?: unknown): RedeemFunction {
  return atCaller(redeemWith, () => {
    const redeem = makeRedeem(insideOf(mailroom), effects);
    return Object.freeze(Object.assign(redeem, { countsAttempts: true as const }));
  });
}

/**
 * An adapter for a pool of pg (node-postgres), or of `@neondatabase/serverless`. A transaction is a
 * client of it, after `BEGIN`.
 *
 * @throws InvalidArgumentError
 * @example
 * const mailroom = createMailroom(pg(pool));
 */
export function pg<Pool extends PgPool>(pool: Pool): TransactionAdapter<ClientOfPg<Pool>> {
  return atCaller(pg, () => makePg(pool));
}

/**
 * An adapter for postgres.js. A transaction is what `sql.begin` gives to its callback.
 *
 * @throws InvalidArgumentError
 */
export function postgresJs<Sql extends SqlFunction>(
  sql: Sql,
): TransactionAdapter<TransactionOfSql<Sql>> {
  return atCaller(postgresJs, () => makeSql("postgresJs", sql));
}

/**
 * An adapter for Bun's SQL on PostgreSQL. A transaction is what `sql.begin` gives to its callback.
 *
 * @throws InvalidArgumentError
 */
export function bunSql<Sql extends SqlFunction>(
  sql: Sql,
): TransactionAdapter<TransactionOfSql<Sql>> {
  return atCaller(bunSql, () => makeSql("bunSql", sql));
}

/**
 * An adapter for Drizzle on PostgreSQL. A transaction is what `db.transaction` gives to its
 * callback.
 *
 * @throws InvalidArgumentError
 */
export function drizzle<Database extends DrizzleDatabase>(
  database: Database,
): TransactionAdapter<TransactionOfDrizzle<Database>> {
  return atCaller(drizzle, () => makeDrizzle(database));
}

/**
 * An adapter for Kysely on PostgreSQL. A transaction is what `db.transaction().execute` gives to
 * its callback.
 *
 * @throws InvalidArgumentError
 */
export function kysely<Database extends KyselyDatabase>(
  database: Database,
): TransactionAdapter<TransactionOfKysely<Database>> {
  return atCaller(kysely, () => makeKysely(database));
}

/**
 * An adapter for Neon's driver over HTTP, which has no transactions: the function that `neon()`
 * makes. Its `Pool` is one for {@link pg}.
 *
 * @throws InvalidArgumentError
 */
export function neon(sql: NeonFunction): StatementAdapter {
  return atCaller(neon, () => makeNeon(sql));
}

/**
 * An adapter for PostgREST and Supabase, by functions that the role of the key alone may call: the
 * file docs/postgrest.sql of the repository makes them. There are no transactions.
 *
 * @throws InvalidArgumentError
 */
export function postgrest(options: PostgrestOptions): StatementAdapter {
  return atCaller(postgrest, () => makePostgrest(options));
}

/**
 * An adapter for `mailroom serve`, by fetch alone. There are no transactions.
 *
 * @throws InvalidArgumentError
 * @example
 * const mailroom = createMailroom(http({ url: "https://mailroom.internal", token }));
 */
export function http(options: HttpOptions): StatementAdapter {
  return atCaller(http, () => makeHttp(options));
}
