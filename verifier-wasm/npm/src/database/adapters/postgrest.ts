import { described } from "../../arguments/described.js";
import { readOptions } from "../../arguments/options.js";
import { InvalidArgumentError } from "../../errors/errors.js";
import { adapterOf, type StatementAdapter } from "../adapter.js";
import type { Call } from "../call.js";
import { reported } from "../failure.js";
import { named, readAddress, readTimeout, refusal } from "./fetching.js";

/** Where PostgREST is, or Supabase. */
export interface PostgrestOptions {
  /** Such as `https://PROJECT.supabase.co/rest/v1`. */
  readonly url: string;
  /** Of the role that may call the functions, such as Supabase's secret key. Never in a page. */
  readonly key: string;
  /** Where the functions of docs/postgrest.sql are. @default "public" */
  readonly schema?: string | undefined;
  /**
   * How long an answer is waited for, in seconds. Whether what had none in time was done is not
   * known.
   *
   * @default 30
   */
  readonly timeout?: number | undefined;
}

/** @internal */
export function makePostgrest(options: PostgrestOptions): StatementAdapter {
  const [url, key, schema = "public", timeout] = readOptions(options, [
    "url",
    "key",
    "schema",
    "timeout",
  ]);
  const base = readAddress(url, "PostgREST");
  if (typeof key !== "string" || !/^[\x21-\x7e]+$/.test(key))
    throw new InvalidArgumentError("the option key must be a key of PostgREST");
  if (typeof schema !== "string" || !/^\w{1,63}$/.test(schema)) {
    throw new InvalidArgumentError(
      `the option schema must be the name of a schema, not ${described(schema)}`,
    );
  }
  const patience = readTimeout(timeout);
  const headers = {
    Accept: "application/json",
    apikey: key,
    Authorization: `Bearer ${key}`,
    "Content-Profile": schema,
    "Content-Type": "application/json",
  };
  return adapterOf({
    client: undefined,
    async alone({ name, values }: Call) {
      try {
        const response = await fetch(`${base}/rpc/mailroom_${name}`, {
          method: "POST",
          headers,
          // A redirect could carry the key elsewhere.
          redirect: "manual",
          body: JSON.stringify(values),
          signal: AbortSignal.timeout(patience),
        });
        const text = await response.text();
        if (!response.ok) throw refusal(response.status, text, "message");
        return text === "" ? undefined : (JSON.parse(text) as unknown);
      } catch (error) {
        throw reported(named(error));
      }
    },
  });
}
