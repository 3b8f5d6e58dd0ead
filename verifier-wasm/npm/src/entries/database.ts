/**
 * Mailroom's functions in PostgreSQL, through the client that you have, and in its transactions:
 * makes mails, uses links.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import type { StatementAdapter, TransactionAdapter } from "../database/adapter.js";
import { type ClientOfPg, makePg, type PgPool } from "../database/adapters/pg.js";
import {
  insideOf,
  type Mailroom,
  type MailroomFunctions,
  type MailroomOptions,
  makeMailroom,
} from "../database/mailroom.js";
import { type Effects, makeRedeem, type RedeemFunction } from "../database/redeeming.js";

export type { StatementAdapter, TransactionAdapter } from "../database/adapter.js";
export type { ClientOfPg, PgPool } from "../database/adapters/pg.js";
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
 * transaction, and commits every verdict; if the effect throws or answers `{ again }`, all is rolled
 * back, and the link is given back. Where the database is away, the visitor is asked to try again,
 * and the handler's `onError` gets why.
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
