// Looks at the database as its owner can, for those who watch the demonstration.
// No part of the flow.

import { Pool } from "pg";

import censusSql from "./census.sql";
import personSql from "./person.sql";
import type { Setting } from "./setting.ts";

/** How many rows are where. */
export interface Census {
  readonly registered: number;
  readonly waiting: number;
  readonly claimed: number;
  readonly sent: number;
}

const LIFETIMES = [60, 900] as const;

export class Observer {
  readonly #pool: Pool;
  #lifetime = 900;

  constructor({ database, owner }: Setting) {
    this.#pool = new Pool({
      host: database.host,
      port: database.port,
      database: database.name,
      user: owner.user,
      password: owner.password,
      max: 4,
      // A machine that does much else does not look like a database that is away.
      connectionTimeoutMillis: 10_000,
      query_timeout: 10_000,
    });
    // The next query makes a connection anew, or tells that it cannot.
    this.#pool.on("error", () => undefined);
  }

  async census(): Promise<Census> {
    const { rows } = await this.#pool.query(censusSql);
    const [row] = rows as Record<string, string>[];
    const count = (name: string) => Number(row?.[name]);
    return {
      registered: count("registered"),
      waiting: count("waiting"),
      claimed: count("claimed"),
      sent: count("sent"),
    };
  }

  /** The account and the invitation of somebody, each null if there is none. */
  async person(email: string): Promise<unknown> {
    // PostgreSQL has no text with this character, so nobody has such a name.
    if (email.includes("\0")) return undefined;
    const { rows } = await this.#pool.query(personSql, [email]);
    return rows[0];
  }

  /** How long new tokens live, in seconds. */
  get lifetime(): number {
    return this.#lifetime;
  }

  /**
   * Sets the default of the column: what makes tokens leaves the time to the table.
   * False for times not offered.
   */
  async setLifetime(seconds: unknown): Promise<boolean> {
    const wanted = LIFETIMES.find((lifetime) => lifetime === seconds);
    if (wanted === undefined) return false;
    await this.#pool.query(
      `ALTER TABLE tokens ALTER COLUMN expires_at
        SET DEFAULT floor(extract(epoch FROM now()))::bigint + ${wanted}`,
    );
    this.#lifetime = wanted;
    return true;
  }

  async end(): Promise<void> {
    await this.#pool.end();
  }
}
