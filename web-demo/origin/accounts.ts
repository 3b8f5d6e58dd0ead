// All that an application does with Mailroom's database: it inserts accounts, requests and redeems.

import type { Pool } from "pg";

import { Unavailable } from "../service/server.ts";
import type { Registration } from "./registration.ts";
import { troubleOf, unreachable } from "./trouble.ts";

export type Action = "activate" | "recover";

/** Between two mails to one account; short, since whoever tries a demonstration waits for the next one. */
export const COOLDOWN = "5 seconds";
const AT_MOST = 30;

/** Whether whoever asked still waits for the answer. */
export type StillWanted = () => boolean;

export class Accounts {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /**
   * Whether the login was free. Whether the email was is not told, because that would tell who has an account; nor is
   * somebody told apart who knows both, because that would tell whose login it is.
   */
  async register({ email, login }: Registration): Promise<boolean> {
    const inserted = await this.#query(
      "INSERT INTO accounts (email, login) VALUES ($1, $2) ON CONFLICT DO NOTHING",
      [email, login],
    );
    if (inserted.rowCount === 1) return true;
    const taken = await this.#query("SELECT 1 FROM accounts WHERE login = $1", [login]);
    // What somebody who registers a second time probably wants; at most one of the two makes a token.
    await this.request(email, "activate");
    await this.request(email, "recover");
    return taken.rowCount === 0;
  }

  async request(emailOrLogin: string, action: Action): Promise<void> {
    await this.#query("SELECT mailroom.request($1, $2, $3::interval, $4)", [
      emailOrLogin,
      action,
      COOLDOWN,
      AT_MOST,
    ]);
  }

  /**
   * Each call is a transaction of its own and is committed whatever the verdict: a rollback would take back a try. What
   * nobody waits for any more is not begun: the edge has told the person that it may not have worked.
   */
  async redeem(
    secret: Buffer,
    action: Action,
    code: string | null,
    stillWanted: StillWanted,
  ): Promise<string> {
    const { rows } = await this.#query(
      "SELECT verdict FROM mailroom.redeem($1, $2, $3)",
      [secret, action, code],
      stillWanted,
    );
    return rows[0].verdict;
  }

  async #query(text: string, values: readonly unknown[], stillWanted: StillWanted = () => true) {
    const client = await this.#pool.connect().catch(() => {
      throw unreachable();
    });
    let broken = false;
    try {
      if (!stillWanted()) throw unreachable();
      return await client.query(text, [...values]);
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      const trouble = troubleOf(error);
      broken = trouble?.broken ?? false;
      throw trouble?.told ?? error;
    } finally {
      client.release(broken);
    }
  }
}
