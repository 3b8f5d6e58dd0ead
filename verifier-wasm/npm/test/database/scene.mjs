// A database with users, and what its owner sees of it.

import { readFileSync } from "node:fs";

import pg from "pg";

const repository = (path) => new URL(`../../../../${path}`, import.meta.url);
const USERS = repository("docs/examples/existing_users.sql");

/** What docs/operate/rights.md grants an application, and what its own tables need. */
const ROLES = `
  DROP ROLE IF EXISTS web;
  DROP ROLE IF EXISTS application;
  CREATE ROLE application NOLOGIN;
  GRANT EXECUTE ON FUNCTION mailroom.enqueue, mailroom.redeem, mailroom.browser_code,
    mailroom.cancel, mailroom.cancel_subject, mailroom.recheck,
    mailroom.renew_link TO application;
  GRANT SELECT, UPDATE ON users TO application;
  CREATE ROLE web LOGIN IN ROLE application;
`;

/** Beyond what a number of JavaScript counts in steps of one. */
const LARGE_IDS =
  "SELECT setval('mailroom.issued_tokens_id_seq', greatest(last_value, 1152921504606846976)) " +
  "FROM mailroom.issued_tokens_id_seq";

export class Scene {
  #pool;
  #server;
  #users = 0;

  static async open() {
    const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE: database } = process.env;
    if (host === undefined) throw new Error("PGHOST names no server; `cargo xtask test` does");
    const scene = new Scene();
    scene.#server = { host, port: Number(port), database };
    scene.#pool = new pg.Pool({ ...scene.#server, user, max: 4 });
    const [{ there }] = await scene.rows("SELECT to_regclass('users') IS NOT NULL AS there");
    if (!there) await scene.rows(readFileSync(USERS, "utf8"));
    await scene.rows("DROP OWNED BY application").catch(() => {});
    await scene.rows(ROLES);
    await scene.rows(LARGE_IDS);
    return scene;
  }

  /** How an application connects. */
  get server() {
    return { ...this.#server, user: "web" };
  }

  /** Of a statement that the owner of all runs. */
  async rows(text, values) {
    return (await this.#pool.query(text, values)).rows;
  }

  /** A user of its own for each test. */
  async user() {
    this.#users += 1;
    const email = `user${this.#users}.${process.pid}@example.test`;
    const [{ id }] = await this.rows("INSERT INTO users (email) VALUES ($1) RETURNING id::text", [
      email,
    ]);
    return { id, email };
  }

  /** Makes the schema one that the next version may have. */
  async toNextVersion() {
    const rights = JSON.parse(readFileSync(repository("collector/src/rights.json"), "utf8"));
    const callable = Object.values(rights).flatMap(({ functions, optional = [] }) => [
      ...functions,
      ...optional,
    ]);
    const next = readFileSync(repository("tests/src/next_schema.sql"), "utf8");
    await this.rows(`SET test.callable = '${callable.join()}'; ${next}`);
  }

  /** What the queue has of a token: its secret and its code. */
  async queued(token) {
    const [row] = await this.rows("SELECT * FROM mailroom.queue WHERE token = $1", [token]);
    return row;
  }

  async issued(token) {
    const [row] = await this.rows(
      "SELECT tokens.*, actions.name FROM mailroom.issued_tokens AS tokens " +
        "JOIN mailroom.actions ON actions.number = action WHERE id = $1",
      [token],
    );
    return row;
  }

  async attempts(token) {
    const [{ count }] = await this.rows(
      "SELECT count(*)::integer FROM mailroom.code_attempts WHERE token = $1",
      [token],
    );
    return count;
  }

  async isVerified(id) {
    const [{ is }] = await this.rows(
      "SELECT verified_at IS NOT NULL AS is FROM users WHERE id = $1",
      [id],
    );
    return is;
  }

  /** Ends the connections of the application that are in a transaction. */
  async endTransactions() {
    await this.rows(
      "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity " +
        "WHERE usename = 'web' AND state LIKE 'idle in transaction%'",
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
  }

  /** A link of an action for a user, as a handler gives it, with its code. */
  async link(mailroom, action, user) {
    const token = await mailroom.enqueue({
      action,
      recipientEmail: user.email,
      subjectId: user.id,
    });
    const { secret, code } = await this.queued(token);
    return { token, code, link: linkOf({ action, secret, code: code ?? undefined }) };
  }

  close() {
    return this.#pool.end();
  }
}

/** A link whose properties are not listed, as those of a handler are not. */
export function linkOf(values) {
  const all = {
    bindingIsProven: false,
    browserCode: undefined,
    fields: new URLSearchParams({ password: "correct horse" }),
    request: new Request("https://app.example/"),
    ...values,
  };
  return Object.create(
    {},
    Object.fromEntries(Object.entries(all).map(([name, value]) => [name, { get: () => value }])),
  );
}
