// Another product than the accounts: invitations to a team,
// in a table of its own whose keys are uuids.
//
// Each statement is a transaction. So an invitation and its mail are made together or not at all,
// and so are used the link and accepted the invitation.

import type { Database, StillWanted } from "./database.ts";

const INVITE = `
  WITH made AS (INSERT INTO product.invitations (team, email) VALUES ($1, $2) RETURNING id, email)
  SELECT mailroom.enqueue('invite', email, subject_id => id::text) FROM made`;

const ACCEPT = `
  WITH redeemed AS (
    SELECT verdict, token::text, subject_id FROM mailroom.redeem($1, 'invite')
  ),
  accepted AS (
    UPDATE product.invitations SET accepted_at = now() FROM redeemed
    WHERE verdict = 'ok' AND invitations.id = subject_id::uuid
  )
  SELECT verdict, token, subject_id FROM redeemed`;

/** The SQLSTATE by which mailroom.enqueue refuses an address. */
const REFUSED = "22023";

export class Invitations {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Whether a mail can be sent to this address; otherwise there is no invitation either. */
  async invite(team: string, email: string): Promise<boolean> {
    try {
      await this.#database.query(INVITE, [team, email]);
      return true;
    } catch (error) {
      if ((error as { code?: string }).code === REFUSED) return false;
      throw error;
    }
  }

  /**
   * Answers as `mailroom serve` does. What nobody waits for any more is not begun: the edge has
   * told the person that it may not have worked.
   */
  async accept(secret: Buffer, stillWanted: StillWanted): Promise<unknown> {
    const { rows } = await this.#database.query(ACCEPT, [secret], stillWanted);
    return rows[0];
  }
}
