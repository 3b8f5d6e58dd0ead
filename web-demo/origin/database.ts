// Asks the database, and says what to make of an error.

import type { Pool, QueryResult } from "pg";

import { Unavailable } from "../service/server.ts";
import { troubleOf, unreachable } from "./trouble.ts";

/** Whether whoever asked still waits for the answer. */
export type StillWanted = () => boolean;

export class Database {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async query(
    text: string,
    values: readonly unknown[],
    stillWanted: StillWanted = () => true,
  ): Promise<QueryResult> {
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
