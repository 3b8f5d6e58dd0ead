import { readMethod } from "../../arguments/options.js";
import { InvalidArgumentError } from "../../errors/errors.js";
import { adapterOf, byStatements, runnerOf, type TransactionAdapter } from "../adapter.js";
import { reported } from "../failure.js";
import { demandMethod } from "./client.js";

/** What is used of a pool of pg, or of that of Neon's driver. */
export interface PgPool {
  connect(): Promise<unknown>;
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** The client that such a pool lends, in which a transaction is. */
export type ClientOfPg<Pool> = Pool extends {
  connect: { (): Promise<infer Client>; (callback: infer _): unknown };
}
  ? Client
  : Pool extends { connect(): Promise<infer Client> }
    ? Client
    : never;

/** @internal */
export function makePg<Pool>(pool: Pool): TransactionAdapter<ClientOfPg<Pool>> {
  const wanted = "pg takes a Pool of pg";
  const query = demandMethod(pool, "query", wanted);
  const connect = demandMethod(pool, "connect", wanted);
  // A client of its own can begin one transaction at a time, and is lent to nobody.
  if (readMethod(pool, "escapeLiteral")) throw new InvalidArgumentError(`${wanted}, not a Client`);
  // A connection of a Worker is of the request that opened it: another one that is lent it waits
  // for ever. A pool says in its options how often it lends one.
  const { navigator } = globalThis as { navigator?: { userAgent?: unknown } };
  if (navigator?.userAgent === "Cloudflare-Workers") {
    const { options } = pool as { options?: { maxUses?: unknown } };
    if ((options?.maxUses ?? 1) !== 1)
      throw new InvalidArgumentError(`${wanted}, in a Worker with maxUses: 1`);
  }
  return adapterOf({
    client: pool,
    alone: byStatements(runnerOf(query)),
    transactions: {
      inside: (client) => runnerOf(demandMethod(client, "query", "a transaction is a client")),
      transact: (work) => transact(connect, work),
    },
  });
}

async function transact<Result>(
  connect: () => unknown,
  work: (client: unknown) => Promise<Result>,
): Promise<Result> {
  let client: unknown;
  try {
    client = await connect();
  } catch (error) {
    throw reported(error);
  }
  const query = demandMethod(client, "query", "the pool has to lend a client");
  const release = demandMethod(client, "release", "the pool has to lend a client");
  const end = async (statement: string) => {
    try {
      await query(statement);
    } catch (error) {
      throw reported(error);
    }
  };
  // A connection that is lost between two statements would end the process.
  const ignore = () => {};
  readMethod(client, "on")?.("error", ignore);
  let broken: unknown;
  try {
    await end("BEGIN");
    const result = await work(client);
    await end("COMMIT");
    return result;
  } catch (error) {
    // A client whose transaction may still be open is not lent again.
    await end("ROLLBACK").catch((cause: unknown) => {
      broken = cause;
    });
    throw error;
  } finally {
    readMethod(client, "removeListener")?.("error", ignore);
    release(broken);
  }
}
