import {
  adapterOf,
  byStatements,
  type Runner,
  runnerOf,
  type TransactionAdapter,
} from "../adapter.js";
import { demandMethod } from "./client.js";

/** What is used of a database of Drizzle for PostgreSQL. */
export interface DrizzleDatabase {
  // biome-ignore lint/suspicious/noExplicitAny: what it takes is a class of Drizzle's
  execute(query: any): PromiseLike<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: what it gives is inferred
  transaction(work: (transaction: any) => Promise<any>): Promise<any>;
}

/** What `transaction` gives to its callback. */
export type TransactionOfDrizzle<Database> = Database extends {
  transaction(work: (transaction: infer Transaction) => infer _, ...more: infer _More): unknown;
}
  ? Transaction
  : never;

/** @internal */
export function makeDrizzle<Database>(
  database: Database,
): TransactionAdapter<TransactionOfDrizzle<Database>> {
  const wanted = "drizzle takes a database of Drizzle for PostgreSQL";
  const transaction = demandMethod(database, "transaction", wanted);
  return adapterOf({
    client: database,
    alone: byStatements(runnerOn(database, wanted)),
    transactions: {
      inside: (given) => runnerOn(given, "a transaction is what db.transaction gives"),
      transact: async (work) => (await transaction(work)) as Awaited<ReturnType<typeof work>>,
    },
  });
}

/** By the interface `SQLWrapper`, since the class of its texts is Drizzle's own. */
function runnerOn(database: unknown, wanted: string): Runner {
  const execute = demandMethod(database, "execute", wanted);
  return runnerOf((text, values) => {
    const query = { sql: text, params: values };
    const wrapper = { getSQL: () => wrapper, toQuery: () => query };
    return execute(wrapper);
  });
}
