// All that an application does with Mailroom's database: it inserts accounts, requests and redeems.

import type { Pool } from "pg";

import { Unavailable } from "../service/server.ts";
import type { Registration } from "./registration.ts";

export type TokenAction = "activation" | "password_recovery";

/** Between two mails to one account; short, since whoever tries a demonstration waits for the next one. */
export const COOLDOWN = "5 seconds";
const AT_MOST = 30;

const AWAY = "The database does not answer. Try again in a moment; nothing was changed.";

export class Accounts {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Whether the login was free; whether the email was is not told, because that would tell who has an account. */
  async register({ email, login }: Registration): Promise<boolean> {
    const inserted = await this.#query(
      "INSERT INTO accounts (email, login) VALUES ($1, $2) ON CONFLICT DO NOTHING",
      [email, login],
    );
    if (inserted.rowCount === 1) return true;
    const taken = await this.#query("SELECT 1 FROM accounts WHERE login = $1 AND email <> $2", [
      login,
      email,
    ]);
    if (taken.rowCount !== 0) return false;
    // What somebody who registers a second time probably wants; at most one of the two makes a token.
    await this.request(email, "activation");
    await this.request(email, "password_recovery");
    return true;
  }

  async request(emailOrLogin: string, action: TokenAction): Promise<void> {
    await this.#query("SELECT mailroom_request($1, $2::token_action, $3::interval, $4)", [
      emailOrLogin,
      action,
      COOLDOWN,
      AT_MOST,
    ]);
  }

  /** Each call is a transaction of its own and is committed whatever the verdict: a rollback would take back a try. */
  async redeem(secret: Buffer, action: TokenAction, code: string | null): Promise<string> {
    const { rows } = await this.#query("SELECT verdict FROM mailroom_redeem($1, $2::token_action, $3)", [
      secret,
      action,
      code,
    ]);
    return rows[0].verdict;
  }

  async #query(text: string, values: readonly unknown[]) {
    const client = await this.#pool.connect().catch(() => {
      throw new Unavailable(AWAY);
    });
    let broken = false;
    try {
      return await client.query(text, [...values]);
    } catch (error) {
      // A server that goes away says so in class 57P, or nothing; any other code is an answer.
      const { code = "" } = error as { code?: string };
      broken = !/^[0-9A-Z]{5}$/.test(code) || code.startsWith("57P");
      throw broken ? new Unavailable(AWAY) : error;
    } finally {
      client.release(broken);
    }
  }
}
