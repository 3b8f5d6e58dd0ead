/**
 * A store of used tokens in a table of PostgreSQL, for any number of processes, through the client
 * that you have: a pool of pg, postgres.js, or whatever else has the method `query` of pg.
 *
 * For edges that have a database, but not the one of the accounts: where the schema of Mailroom is,
 * its function that redeems is the store, and nothing else consumes.
 *
 * @module
 */

import { described } from "../../arguments/described.js";
import { readMethod, readOptions } from "../../arguments/options.js";
import {
  InvalidArgumentError,
  StoreFullError,
  StoreUnavailableError,
} from "../../errors/errors.js";
import {
  demanding,
  hexadecimal,
  readNamespace,
  tooLate,
  tooManyOwners,
} from "../../stores/base.js";
import attemptStatement from "../../stores/postgres/attempt.sql";
import consumeStatement from "../../stores/postgres/consume.sql";
import releaseStatement from "../../stores/postgres/release.sql";
import tableDefinition from "../../stores/postgres/table.sql";
import withdrawStatement from "../../stores/postgres/withdraw.sql";
import type { TokenStore } from "../../stores/token_store.js";

/**
 * A pool or client of pg (which has `query`), or the function of postgres.js (which has `unsafe`).
 * It must not be inside of a transaction, whose rollback would forget what was remembered.
 */
export type PostgresClient =
  | { query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }> }
  // biome-ignore lint/suspicious/noExplicitAny: postgres.js types its parameters too narrowly
  | { unsafe(text: string, values: any[]): PromiseLike<readonly unknown[]> };

/** What {@link createPostgresStore} takes. Options of other names are refused. */
export interface PostgresStoreOptions {
  readonly client: PostgresClient;
  /**
   * Kept with every entry: 1 to 64 letters, digits, dots, hyphens and underscores.
   * One for each installation.
   */
  readonly namespace: string;
}

/**
 * Statements that make the table, to be run once by whoever owns the schema; running them again
 * changes nothing. The role of the store needs SELECT, INSERT, UPDATE and DELETE on
 * `mailroom_used_tokens`, which is looked for along its search path.
 */
export const TABLE: string = tableDefinition;

/**
 * Remembers used tokens in the table that {@link TABLE} makes, each in one row, by one statement
 * for each operation, and by the server's clock: while that reads the future, links that are still
 * valid are refused. A statement that runs again, or late, changes nothing by that. Rows whose time
 * is over are deleted by later operations.
 *
 * A replica that is promoted before it has caught up forgets the last entries. The database of the
 * accounts still decides.
 *
 * @throws InvalidArgumentError
 * @example
 * const store = createPostgresStore({ client: new pg.Pool(), namespace: "mailroom" });
 */
export function createPostgresStore(options: PostgresStoreOptions): Required<TokenStore> {
  const [client, given] = readOptions(options, ["client", "namespace"]);
  const query = explained(repeated(readClient(client)));
  const namespace = readNamespace(given);

  function run(statement: string, id: Uint8Array, rememberUntil: number, owner: Uint8Array) {
    return query(statement, [namespace, hexadecimal(id), rememberUntil, hexadecimal(owner)]);
  }

  async function remember(
    statement: string,
    id: Uint8Array,
    rememberUntil: number,
    owner: Uint8Array,
  ) {
    const rows = await run(statement, id, rememberUntil, owner);
    if (rows.length === 0) throw tooLate();
    return rows[0] as Record<string, unknown>;
  }

  return demanding({
    async consume(id, rememberUntil, owner) {
      const { first, full } = await remember(consumeStatement, id, rememberUntil, owner);
      if (full === true) throw tooManyOwners();
      if (typeof first === "boolean") return first;
      throw new StoreUnavailableError(
        `the client answered with ${described(first)}, not with a boolean`,
      );
    },
    async release(id, rememberUntil, owner) {
      await run(releaseStatement, id, rememberUntil, owner);
    },
    async attempt(id, rememberUntil, owner) {
      const { number } = await remember(attemptStatement, id, rememberUntil, owner);
      return Number(number);
    },
    async withdraw(id, rememberUntil, owner) {
      await run(withdrawStatement, id, rememberUntil, owner);
    },
  });
}

type Query = (text: string, values: unknown[]) => Promise<readonly unknown[]>;

function readClient(client: unknown): Query {
  const unsafe = readMethod(client, "unsafe");
  if (unsafe) return async (text, values) => rowsOf(await unsafe(text, values));
  const query = readMethod(client, "query");
  if (query)
    return async (text, values) =>
      rowsOf(((await query(text, values)) as { rows?: unknown } | undefined)?.rows);
  throw new InvalidArgumentError(
    `the option client must be a pool of pg, or what postgres.js returns, not ${described(client)}`,
  );
}

function rowsOf(found: unknown): readonly unknown[] {
  if (Array.isArray(found)) return found;
  throw new StoreUnavailableError(`the client answered with ${described(found)}, not with rows`);
}

// `UPDATE=1 cargo test --workspace --test offline sqlstates` writes these codes.
const UNDEFINED_TABLE = "42P01";
const UNDEFINED_COLUMN = "42703";
const INSUFFICIENT_PRIVILEGE = "42501";
const DISK_FULL = "53100";

const UNAVAILABLE = new Map<unknown, string>([
  [
    UNDEFINED_TABLE,
    "there is no table mailroom_used_tokens along the search path: run the statements of TABLE",
  ],
  [
    UNDEFINED_COLUMN,
    "the table mailroom_used_tokens is of another version: " +
      "drop it, and run the statements of TABLE",
  ],
  [
    INSUFFICIENT_PRIVILEGE,
    "the role may not use mailroom_used_tokens: grant it SELECT, INSERT, UPDATE and DELETE",
  ],
]);

/**
 * After these a statement did nothing, since others worked on its row, and may run again: where the
 * database's default isolation is above READ COMMITTED, and of a deadlock.
 */
const CONFLICTS: readonly unknown[] = ["40001", "40P01"];

/** How many times a statement runs at most. */
const MOST_RUNS = 100;

/** The longest pause before it runs again, in milliseconds. */
const LONGEST_PAUSE = 200;

/** Runs a statement again that lost to others. */
function repeated(query: Query): Query {
  return async (text, values) => {
    for (let run = 1; ; run += 1) {
      try {
        return await query(text, values);
      } catch (error) {
        const { code } = (error ?? {}) as { code?: unknown };
        if (run === MOST_RUNS || !CONFLICTS.includes(code)) throw error;
        // By chance, so that those who met once do not meet again.
        const pause = Math.random() * Math.min(LONGEST_PAUSE, 2 ** run);
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  };
}

/** Adds a hint to known errors. */
function explained(query: Query): Query {
  return async (text, values) => {
    try {
      return await query(text, values);
    } catch (cause) {
      const { code } = (cause ?? {}) as { code?: unknown };
      if (code === DISK_FULL)
        throw new StoreFullError("the PostgreSQL server has no room left for used tokens", {
          cause,
        });
      const reason = UNAVAILABLE.get(code);
      throw reason === undefined ? cause : new StoreUnavailableError(reason, { cause });
    }
  };
}
