/**
 * A store of used tokens in a table of PostgreSQL, for any number of processes, through the client that you have: a pool
 * of pg, postgres.js, or whatever else has the method `query` of pg.
 *
 * For edges that have a database, but not the one of the accounts: where the schema of Mailroom is, its function that
 * redeems is the store, and nothing else consumes.
 *
 * @module
 */

import {
  hexadecimal,
  InvalidArgumentError,
  readMethod,
  readNamespace,
  readOptions,
  StoreFullError,
  StoreUnavailableError,
  TokenExpiredError,
} from "../store.js";
import type { TokenStore } from "../token_store.js";
import attemptStatement from "./postgres/attempt.sql";
import consumeStatement from "./postgres/consume.sql";
import releaseStatement from "./postgres/release.sql";
import tableDefinition from "./postgres/table.sql";

/**
 * A pool or client of pg (which has `query`), or the function of postgres.js (which has `unsafe`). None that is inside of
 * a transaction: what is rolled back was never remembered.
 */
export type PostgresClient =
  | { query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }> }
  // biome-ignore lint/suspicious/noExplicitAny: the parameters of postgres.js are typed more narrowly than they need be
  | { unsafe(text: string, values: any[]): PromiseLike<readonly unknown[]> };

/** What {@link createPostgresStore} takes. Options of other names are refused. */
export interface PostgresStoreOptions {
  readonly client: PostgresClient;
  /** Kept with every entry: 1 to 64 letters, digits, dots, hyphens and underscores. One for each installation. */
  readonly namespace: string;
}

/**
 * Statements that make the table, to be run once by whoever owns the schema; running them again changes nothing. The role
 * of the store needs SELECT, INSERT, UPDATE and DELETE on `mailroom_used_tokens`, which is looked for along its search
 * path.
 */
export const TABLE: string = tableDefinition;

/**
 * Remembers used tokens in the table that {@link TABLE} makes, by one statement each, and by the server's clock. Rows
 * that mean nothing any more are deleted in passing.
 *
 * A replica that is promoted before it has caught up forgets the last entries. The database of the accounts still decides.
 *
 * @throws InvalidArgumentError
 * @example
 * const store = createPostgresStore({ client: new pg.Pool(), namespace: "mailroom" });
 */
export function createPostgresStore(options: PostgresStoreOptions): Required<TokenStore> {
  const [client, given] = readOptions(options, ["client", "namespace"]);
  const query = knowingFull(readClient(client));
  const namespace = readNamespace(given);

  async function ask(
    statement: string,
    id: Uint8Array,
    rememberUntil: number,
  ): Promise<Record<string, unknown>> {
    const rows = await query(statement, [namespace, hexadecimal(id), rememberUntil]);
    if (rows.length === 0) throw new TokenExpiredError("the time until which to remember this token is over");
    return rows[0] as Record<string, unknown>;
  }

  return Object.freeze<Required<TokenStore>>({
    async consume(id, rememberUntil) {
      const { first } = await ask(consumeStatement, id, rememberUntil);
      if (typeof first === "boolean") return first;
      throw new StoreUnavailableError("the PostgreSQL server answered what is no answer");
    },
    async attempt(id, rememberUntil) {
      const { number } = await ask(attemptStatement, id, rememberUntil);
      return Number(number);
    },
    async release(id) {
      await query(releaseStatement, [namespace, hexadecimal(id)]);
    },
  });
}

type Query = (text: string, values: unknown[]) => Promise<readonly unknown[]>;

function readClient(client: unknown): Query {
  const unsafe = readMethod(client, "unsafe");
  if (unsafe) return async (text, values) => (await unsafe(text, values)) as readonly unknown[];
  const query = readMethod(client, "query");
  if (query)
    return async (text, values) => ((await query(text, values)) as { rows: readonly unknown[] }).rows;
  throw new InvalidArgumentError("the option client is a pool of pg, or what postgres.js returns");
}

/** What PostgreSQL says of a disk that is full (its appendix A). */
const DISK_FULL = "53100";

function knowingFull(query: Query): Query {
  return async (text, values) => {
    try {
      return await query(text, values);
    } catch (cause) {
      if ((cause as { code?: unknown } | undefined)?.code !== DISK_FULL) throw cause;
      throw new StoreFullError("the PostgreSQL server has no room left for used tokens", { cause });
    }
  };
}
