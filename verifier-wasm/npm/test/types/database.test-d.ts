// The database. Nothing here runs.

import { createMemoryStore, createVerifier } from "mailroom-verifier";
import {
  createMailroom,
  type Effects,
  FURTHER_ACTIONS,
  type Mailroom,
  type MailroomFunctions,
  pg,
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

const actions = { ...FURTHER_ACTIONS, vote: { number: 100, path: "/vote", digits: 6 } } as const;
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
