import { described } from "../../arguments/described.js";
import { readOptions } from "../../arguments/options.js";
import { InvalidArgumentError } from "../../errors/errors.js";
import { adapterOf, type StatementAdapter } from "../adapter.js";
import type { Call, Values } from "../call.js";
import { reported } from "../failure.js";
import { named, readAddress, readTimeout, refusal } from "./fetching.js";

/** Where `mailroom serve` is. */
export interface HttpOptions {
  /** Such as `https://mailroom.internal`, or with a path where a proxy has it. */
  readonly url: string;
  /** What `mailroom serve token` has made. Never in a page. */
  readonly token: string;
  /**
   * In place of the platform's, such as that of a binding of Workers, or one that connects to a
   * Unix socket.
   */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
  /**
   * How long an answer is waited for, in seconds: by default longer than the 25 in which the server
   * answers, so that whatever it has begun is over when this is.
   *
   * @default 30
   */
  readonly timeout?: number | undefined;
}

/** The member of an answer that is the function's. */
const ANSWERS: Readonly<Record<Call["name"], string | undefined>> = {
  enqueue: "token",
  request: undefined,
  // The whole.
  redeem: undefined,
  browser_code: "browser_code",
  cancel: "cancelled",
  cancel_subject: "cancelled",
  recheck: "rechecked",
  renew_link: undefined,
};

/** The longest answer that is read, in characters. */
const LONGEST = 65_536;

/** @internal */
export function makeHttp(options: HttpOptions): StatementAdapter {
  const [url, token, given, timeout] = readOptions(options, ["url", "token", "fetch", "timeout"]);
  const base = readAddress(url, "`mailroom serve`");
  if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token))
    throw new InvalidArgumentError("the option token must be what `mailroom serve token` prints");
  if (given !== undefined && typeof given !== "function") {
    throw new InvalidArgumentError(`the option fetch must be a function, not ${described(given)}`);
  }
  const patience = readTimeout(timeout);
  const headers = {
    Accept: "application/json",
    Authorization: `Bearer ${token}`,
    "Content-Type": "application/json",
  };
  return adapterOf({
    client: undefined,
    async alone({ name, values }: Call) {
      try {
        const ask = (given ?? fetch) as (url: string, init: RequestInit) => Promise<Response>;
        const response = await ask(`${base}/v1/${name.replace("_", "-")}`, {
          method: "POST",
          headers,
          // A redirect could carry the token elsewhere.
          redirect: "manual",
          body: JSON.stringify(membersOf(values)),
          signal: AbortSignal.timeout(patience),
        });
        const text = await response.text();
        if (!response.ok || text.length > LONGEST) throw refusal(response.status, text, "detail");
        const answer = JSON.parse(text) as Readonly<Record<string, unknown>> | null;
        const member = ANSWERS[name];
        return member === undefined ? answer : answer?.[member];
      } catch (error) {
        throw reported(named(error));
      }
    },
  });
}

/** Texts for the database, as the JSON that the server takes. */
function membersOf(values: Values): object {
  const { at_most, cooldown, per, payload, binding_proven, only_proofs, ...texts } = values;
  const parsed = (text: string | undefined): unknown =>
    text === undefined ? undefined : JSON.parse(text);
  const seconds = (text: string | undefined) =>
    text === undefined ? undefined : Number.parseFloat(text);
  return {
    ...texts,
    at_most: parsed(at_most),
    cooldown: seconds(cooldown),
    per: seconds(per),
    payload: parsed(payload),
    binding_proven: parsed(binding_proven),
    only_proofs: parsed(only_proofs),
  };
}
