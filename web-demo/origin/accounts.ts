// What the application does with the accounts of the base schema: it inserts them, and requests
// mails. `mailroom serve` uses their links.

import type { Database } from "./database.ts";
import type { Registration } from "./registration.ts";

export type Action = "activate" | "recover";

/**
 * Between two mails to one account; short, since whoever tries a demonstration
 * waits for the next one.
 */
export const COOLDOWN = "5 seconds";
const AT_MOST = 30;

export class Accounts {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Whether the login was free. Whether the email was is not told, because that would tell who has
   * an account; nor is somebody told apart who knows both,
   * because that would tell whose login it is.
   */
  async register({ email, login }: Registration): Promise<boolean> {
    const inserted = await this.#database.query(
      "INSERT INTO accounts (email, login) VALUES ($1, $2) ON CONFLICT DO NOTHING",
      [email, login],
    );
    if (inserted.rowCount === 1) return true;
    const taken = await this.#database.query("SELECT 1 FROM accounts WHERE login = $1", [login]);
    // What somebody who registers a second time probably wants;
    // at most one of the two makes a token.
    await this.request(email, "activate");
    await this.request(email, "recover");
    return taken.rowCount === 0;
  }

  async request(emailOrLogin: string, action: Action): Promise<void> {
    await this.#database.query("SELECT mailroom.request($1, $2, $3::interval, $4)", [
      emailOrLogin,
      action,
      COOLDOWN,
      AT_MOST,
    ]);
  }
}
