// The database. Nothing here runs.

import { createMemoryStore, createVerifier } from "mailroom-verifier";
import { defineActions } from "mailroom-verifier/actions";
import {
  bunSql,
  createMailroom,
  drizzle,
  type Effects,
  FURTHER_ACTIONS,
  http,
  kysely,
  type Mailroom,
  type MailroomFunctions,
  neon,
  pg,
  postgresJs,
  postgrest,
  type Redeemed,
  redeemWith,
  type StatementAdapter,
} from "mailroom-verifier/database";
import { createLinkHandler } from "mailroom-verifier/handler";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(proof: Same<A, B>): void;

/** As the types of pg have it. */
interface Client {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  release(): void;
}
interface Pool {
  connect(): Promise<Client>;
  connect(callback: (error: Error | undefined, client: Client | undefined) => void): void;
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}
declare const pool: Pool;
declare const client: Client;
declare const single: StatementAdapter;

const actions = defineActions({
  ...FURTHER_ACTIONS,
  vote: { number: 100, path: "/vote", digits: 6 },
});
const mailroom = createMailroom(pg(pool));
same<typeof mailroom, Mailroom<Client, never>>(true);
const inTransaction: MailroomFunctions = mailroom.in(client);
const id: Promise<string> = inTransaction.enqueue({
  action: "sign_in",
  recipientEmail: "ada@example.test",
  recipientName: null,
  subjectId: undefined,
  payload: { list: [1] },
  deliverAt: new Date(),
  binding: new Uint8Array(16),
  noticeRecipient: "old@example.test",
});
id.then((token) => mailroom.cancel(token));
mailroom.cancel(7n);
mailroom.redeem({ action: "recover", secret: new Uint8Array(32) }).then((redeemed: Redeemed) => {
  if (redeemed.verdict === "ok") same<typeof redeemed.subjectId, string | null>(true);
});
// @ts-expect-error an action that nobody has defined
mailroom.enqueue({ action: "vote", recipientEmail: "ada@example.test" });
const more = createMailroom(pg(pool), { actions, schema: "mails" });
more.enqueue({ action: "vote", recipientEmail: "ada@example.test" });
// @ts-expect-error an id that may be no number
mailroom.cancelSubject(7);
const secret = new Uint8Array(32);
const renewed: Promise<void> = mailroom.renewLink({ action: "recover", secret });
void renewed;
// @ts-expect-error a time as a text
mailroom.enqueue({ action: "notice", recipientEmail: "a@b.test", deliverAt: "2030-01-01" });
// @ts-expect-error a connection is no adapter
createMailroom(pool);
// @ts-expect-error a transaction of another client
mailroom.in({ begin() {} });

const redeem = redeemWith(mailroom, {
  activate: (tx, subjectId) => {
    same<typeof tx, Client>(true);
    same<typeof subjectId, string | null>(true);
    return tx.query("UPDATE users SET verified = true WHERE id = $1", [subjectId]);
  },
  recover: (_, __, fields, { token }) =>
    fields.get("password") === token ? { again: "Choose another password." } : undefined,
});
same<typeof redeem.countsAttempts, true>(true);
redeemWith(more, { vote() {} } satisfies Effects<Client, "vote">);
// @ts-expect-error an action that nobody has defined
redeemWith(mailroom, { vote() {} });
redeemWith(mailroom);

const statements = createMailroom(single);
redeemWith(statements);
// @ts-expect-error there is no transaction in which an effect could be
redeemWith(statements, { activate() {} });
// @ts-expect-error nor one of the caller's
statements.in(client);

createLinkHandler({
  verifier: createVerifier({ keys: "", actions }),
  store: createMemoryStore({ capacity: 10 }),
  redeem,
});

/** As the types of the other clients have them. */
interface InSql {
  unsafe(text: string, values?: (string | number)[]): PromiseLike<object[]>;
  savepoint(name: string): Promise<void>;
}
interface Sql {
  unsafe(text: string, values?: (string | number)[]): PromiseLike<object[]>;
  begin<T>(work: (sql: InSql) => T | Promise<T>): Promise<T>;
  begin<T>(options: string, work: (sql: InSql) => T | Promise<T>): Promise<T>;
}
interface InDrizzle {
  execute(query: string | { getSQL(): { readonly inner: string } }): PromiseLike<{ rows: [] }>;
  rollback(): never;
}
interface Drizzle extends Omit<InDrizzle, "rollback"> {
  transaction<T>(work: (tx: InDrizzle) => Promise<T>, config?: { level?: string }): Promise<T>;
}
interface InKysely extends Kysely {
  readonly isTransaction: true;
}
interface Kysely {
  executeQuery<R>(query: { readonly sql: string }): Promise<{ rows: R[] }>;
  transaction(): { execute<T>(work: (trx: InKysely) => Promise<T>): Promise<T> };
}
declare const sql: Sql, drizzled: Drizzle, built: Kysely;
const others = [
  createMailroom(postgresJs(sql)),
  createMailroom(bunSql(sql)),
  createMailroom(drizzle(drizzled)),
  createMailroom(kysely(built)),
] as const;
same<(typeof others)[0], Mailroom<InSql, never>>(true);
same<(typeof others)[1], Mailroom<InSql, never>>(true);
same<(typeof others)[2], Mailroom<InDrizzle, never>>(true);
same<(typeof others)[3], Mailroom<InKysely, never>>(true);
const byHttp = createMailroom(neon({ query: async () => [] }));
same<typeof byHttp, MailroomFunctions<never>>(true);
redeemWith(createMailroom(postgrest({ url: "https://app.example", key: "" })));
// @ts-expect-error there is no transaction in which an effect could be
redeemWith(byHttp, { activate() {} });
redeemWith(createMailroom(http({ url: "https://app.example", token: "", fetch })));
// @ts-expect-error nor is there one behind `mailroom serve`
redeemWith(createMailroom(http({ url: "https://app.example", token: "" })), { activate() {} });
// @ts-expect-error a token is needed
http({ url: "https://app.example" });
// @ts-expect-error a key is needed
postgrest({ url: "https://app.example" });
// @ts-expect-error a pool of pg is no function of postgres.js
postgresJs(pool);
// @ts-expect-error nor a database of Drizzle
drizzle(pool);
