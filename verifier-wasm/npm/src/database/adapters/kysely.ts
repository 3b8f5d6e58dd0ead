import { InvalidArgumentError } from "../../errors/errors.js";
import {
  adapterOf,
  byStatements,
  type Runner,
  runnerOf,
  type TransactionAdapter,
} from "../adapter.js";
import { demandMethod } from "./client.js";

/** What is used of Kysely. */
export interface KyselyDatabase {
  // biome-ignore lint/suspicious/noExplicitAny: what it takes is a type of Kysely's
  executeQuery(query: any): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: what it gives is inferred
  transaction(): { execute(work: (transaction: any) => Promise<any>): Promise<any> };
}

/** What `transaction().execute` gives to its callback. */
export type TransactionOfKysely<Database> = Database extends {
  transaction(): { execute(work: (transaction: infer Transaction) => infer _): unknown };
}
  ? Transaction
  : never;

/** @internal */
export function makeKysely<Database>(
  database: Database,
): TransactionAdapter<TransactionOfKysely<Database>> {
  const wanted = "kysely takes a Kysely";
  const transaction = demandMethod(database, "transaction", wanted);
  return adapterOf({
    client: database,
    alone: byStatements(runnerOn(database, wanted)),
    transactions: {
      inside(given) {
        const of = "a transaction is what db.transaction().execute gives";
        const run = runnerOn(given, of);
        if ((given as { isTransaction?: unknown }).isTransaction === true) return run;
        throw new InvalidArgumentError(of);
      },
      async transact(work) {
        const execute = demandMethod(transaction(), "execute", wanted);
        return (await execute(work)) as Awaited<ReturnType<typeof work>>;
      },
    },
  });
}

/** As `CompiledQuery.raw` makes it. */
function runnerOn(database: unknown, wanted: string): Runner {
  const executeQuery = demandMethod(database, "executeQuery", wanted);
  return runnerOf((text, values) =>
    executeQuery({
      sql: text,
      parameters: values,
      query: { kind: "RawNode", sqlFragments: [text], parameters: [] },
      queryId: { queryId: "mailroom" },
    }),
  );
}
