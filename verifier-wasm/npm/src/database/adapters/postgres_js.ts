import { adapterOf, byStatements, runnerOf, type TransactionAdapter } from "../adapter.js";
import { demandMethod } from "./client.js";

/** What is used of postgres.js, or of Bun's SQL. */
export interface SqlFunction {
  // biome-ignore lint/suspicious/noExplicitAny: postgres.js types its parameters too narrowly
  unsafe(text: string, values?: any[]): PromiseLike<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: what it gives is inferred
  begin(work: (transaction: any) => any): Promise<any>;
}

/** What `begin` gives to its callback, in which a transaction is. */
export type TransactionOfSql<Sql> = Sql extends {
  begin: {
    (work: (transaction: infer Transaction) => infer _): unknown;
    (options: string, work: infer _Other): unknown;
  };
}
  ? Transaction
  : Sql extends { begin(work: (transaction: infer Transaction) => infer _): unknown }
    ? Transaction
    : never;

/** @internal `name`: what the adapter is called */
export function makeSql<Sql>(name: string, sql: Sql): TransactionAdapter<TransactionOfSql<Sql>> {
  const wanted = `${name} takes the function that runs statements, with unsafe and begin`;
  const unsafe = demandMethod(sql, "unsafe", wanted);
  const begin = demandMethod(sql, "begin", wanted);
  const of = "a transaction is what begin gives to its callback";
  return adapterOf({
    client: sql,
    alone: byStatements(runnerOf(unsafe)),
    transactions: {
      inside(transaction) {
        demandMethod(transaction, "savepoint", of);
        return runnerOf(demandMethod(transaction, "unsafe", of));
      },
      transact: async (work) => (await begin(work)) as Awaited<ReturnType<typeof work>>,
    },
  });
}
