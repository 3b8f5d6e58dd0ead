import { adapterOf, byStatements, runnerOf, type StatementAdapter } from "../adapter.js";
import { demandMethod } from "./client.js";

/** What is used of the function that `neon` of Neon's driver makes. */
export interface NeonFunction {
  query(text: string, values?: unknown[]): PromiseLike<unknown>;
}

/** @internal */
export function makeNeon(sql: NeonFunction): StatementAdapter {
  const query = demandMethod(sql, "query", "neon takes the function that neon() makes");
  return adapterOf({ client: sql, alone: byStatements(runnerOf(query)) });
}
