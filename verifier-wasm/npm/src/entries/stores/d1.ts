/**
 * A store of used tokens in D1, the SQL database of Cloudflare Workers.
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
import { hexadecimal, readNamespace } from "../../stores/base.js";
import appendStatement from "../../stores/d1/append.sql";
import forgetStatement from "../../stores/d1/forget.sql";
import tableDefinition from "../../stores/d1/table.sql";
import { answering, TOO_LATE } from "../../stores/entry.js";
import { answerOf, EVENT_LENGTH, eventOf, MOST_EVENTS } from "../../stores/history.js";
import type { TokenStore } from "../../stores/token_store.js";

/** The part of a statement of D1 that is used. */
export interface D1Statement {
  bind(...values: unknown[]): D1Statement;
}

/** The binding of a Worker to a database of D1. */
export interface D1Binding {
  // biome-ignore lint/suspicious/noExplicitAny: the class of statements is the runtime's own
  prepare(query: string): any;
  // biome-ignore lint/suspicious/noExplicitAny: the same
  batch(statements: any[]): Promise<readonly { readonly results: readonly unknown[] }[]>;
}

/** What {@link createD1Store} takes. Options of other names are refused. */
export interface D1StoreOptions {
  readonly database: D1Binding;
  /**
   * Kept with every entry: 1 to 64 letters, digits, dots, hyphens and underscores.
   * One for each installation.
   */
  readonly namespace: string;
}

/**
 * Statements that make the table, one on each line, for a migration or `database.exec`; running
 * them again changes nothing.
 */
export const TABLE: string = tableDefinition;

/**
 * Remembers used tokens in the table that {@link TABLE} makes, each in one row, by one batch for
 * each operation, and by the database's clock: while that reads the future, links that are still
 * valid are refused. Of a link 400 operations are remembered; then those that would change
 * something are refused. Rows whose time is over are deleted by later uses.
 *
 * Every operation is a write, which D1 does one after the other in its primary database, whatever
 * replicas there are; a database that was restored to an earlier time forgets what came after it.
 *
 * @throws InvalidArgumentError
 * @example
 * const store = createD1Store({ database: env.DB, namespace: "mailroom" });
 */
export function createD1Store(options: D1StoreOptions): Required<TokenStore> {
  const [database, given] = readOptions(options, ["database", "namespace"]);
  const [prepare, batch] = [readMethod(database, "prepare"), readMethod(database, "batch")];
  if (!prepare || !batch) {
    throw new InvalidArgumentError(
      `the option database must be a binding to D1, not ${described(database)}: ` +
        "look at its name in the configuration",
    );
  }
  const namespace = readNamespace(given);

  return answering(async (what, id, rememberUntil, owner) => {
    const event = eventOf(what, hexadecimal(owner));
    const values = [namespace, hexadecimal(id), rememberUntil, event, MOST_EVENTS * EVENT_LENGTH];
    const append = (prepare(appendStatement) as D1Statement).bind(...values);
    const statements = what === "consume" ? [append, prepare(forgetStatement)] : [append];
    const [found] = await explained(
      async () => batch(statements) as ReturnType<D1Binding["batch"]>,
    );
    const rows = found?.results;
    if (!Array.isArray(rows)) {
      throw new StoreUnavailableError(
        `the database answered with ${described(rows)}, not with rows`,
      );
    }
    return rows.length === 0 ? TOO_LATE : answerOf(eventsOf(rows[0]?.history), event);
  });
}

function eventsOf(history: unknown): readonly string[] {
  if (typeof history === "string") return history.match(/.{1,33}/gs) ?? [];
  throw new StoreUnavailableError(
    `the database keeps ${described(history)} as the history of a link`,
  );
}

/** Adds a hint to known errors. They are known by their texts, because D1 gives no codes. */
async function explained<T>(query: () => Promise<T>): Promise<T> {
  try {
    return await query();
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : "";
    if (/SQLITE_FULL|maximum DB size/.test(text))
      throw new StoreFullError("the database has no room left for used tokens", { cause });
    if (/no such (?:table|column)|has no column/.test(text))
      throw new StoreUnavailableError(
        "there is no table mailroom_used_tokens of this version: run the statements of TABLE",
        { cause },
      );
    throw cause;
  }
}
