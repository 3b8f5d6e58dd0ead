/**
 * A store of used tokens in Redis over HTTP, by the REST protocol of Upstash,
 * for edges that open no connections.
 *
 * @module
 */

import { described } from "../../arguments/described.js";
import { readOptions } from "../../arguments/options.js";
import { InvalidArgumentError, StoreUnavailableError } from "../../errors/errors.js";
import { INFO, POLICY_HOLDS, refuseEviction, scripted } from "../../stores/redis/scripted.js";
import type { TokenStore } from "../../stores/token_store.js";

/** What {@link createUpstashStore} takes. Options of other names are refused. */
export interface UpstashStoreOptions {
  /**
   * The address of the database, `UPSTASH_REDIS_REST_URL`: `https:`, or `http:` on this machine.
   */
  readonly url: string;
  /** The token that may write to it, `UPSTASH_REDIS_REST_TOKEN`. */
  readonly token: string;
  /**
   * Begins the name of every key: 1 to 64 letters, digits, dots, hyphens and underscores. One for
   * each installation.
   */
  readonly namespace: string;
  /**
   * Tells the time in seconds since the Unix epoch,
   * from which it follows for how long an entry is remembered.
   *
   * @default the system's clock
   */
  readonly clock?: (() => number) | undefined;
  /**
   * What sends the requests.
   *
   * @default `fetch` of the runtime
   */
  // biome-ignore lint/suspicious/noExplicitAny: each runtime types the options of fetch its way
  readonly fetch?: ((url: string, init: any) => Promise<HttpResponse>) | undefined;
}

/** The part of a `Response` that is looked at. */
export interface HttpResponse {
  readonly status: number;
  text(): Promise<string>;
}

/**
 * Remembers used tokens in Redis, each in one key, by one script in one HTTP request for each
 * operation. As with `createRedisStore`, entries end by themselves, and a database that may evict
 * them is refused: the first request says so, and every minute another one, each asking for the
 * policy beside what it does.
 *
 * Scripts run one after the other in the primary database, whatever read regions there are; a
 * failover to a replica that lags behind forgets the last entries,
 * and the database of the accounts still decides.
 *
 * @throws InvalidArgumentError
 * @example
 * const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token } = process.env;
 * const store = createUpstashStore({ url, token, namespace: "mailroom" });
 */
export function createUpstashStore(options: UpstashStoreOptions): Required<TokenStore> {
  const known = ["url", "token", "namespace", "clock", "fetch"] as const;
  const [url, token, namespace, clock, given] = readOptions(options, known);
  const pipeline = readPipeline(url);
  if (given !== undefined && typeof given !== "function")
    throw new InvalidArgumentError("the option fetch must be a function");
  const send = (given ?? ((address, init) => fetch(address, init))) as Send;
  // What a header cannot carry would be in the message of an error that fetch throws.
  if (typeof token !== "string" || !/^[\x21-\x7e]{1,1024}$/.test(token)) {
    throw new InvalidArgumentError(
      "the option token must be the token of a database, without spaces",
    );
  }
  let holdsUntil = Number.NEGATIVE_INFINITY;

  return scripted(
    async (_, words) => {
      // Not the clock of the tokens, which may be one of a test.
      const isChecked = performance.now() < holdsUntil;
      const replies = await post(send, pipeline, token, isChecked ? [words] : [INFO, words]);
      if (!isChecked) {
        refuseEviction(resultOf(replies[0]));
        holdsUntil = performance.now() + POLICY_HOLDS;
      }
      return resultOf(replies[isChecked ? 0 : 1]);
    },
    namespace,
    clock,
  );
}

/** The address that takes several commands at once. */
function readPipeline(given: unknown): string {
  let url: URL | undefined;
  try {
    url = new URL(typeof given === "string" ? given : "");
  } catch {
    // The message below says which form it must have. It does not repeat the value, which may be
    // the token by mistake.
  }
  const isHere =
    url?.protocol === "http:" && /^(?:localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname);
  if (
    url &&
    (url.protocol === "https:" || isHere) &&
    !url.username &&
    !url.password &&
    !url.search &&
    !url.hash
  )
    return `${url.href.replace(/\/$/, "")}/pipeline`;
  throw new InvalidArgumentError(
    "the option url must be the https address of a database, without credentials or query",
  );
}

type Send = (url: string, init: RequestInit) => Promise<HttpResponse>;

/**
 * No two requests of different redemptions are alike, so a framework whose fetch caches them gives
 * no wrong answer.
 */
async function post(
  send: Send,
  url: string,
  token: string,
  commands: readonly (readonly string[])[],
): Promise<readonly unknown[]> {
  const response = await send(url, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(commands),
    // The token is for this address only.
    redirect: "manual",
  });
  const text = await response.text();
  if (response.status === 401 || response.status === 403)
    throw new StoreUnavailableError(
      "the database refuses the token: is it the one that may write?",
    );
  if (response.status !== 200)
    throw new StoreUnavailableError(`the database answered with status ${response.status}`);
  let replies: unknown;
  try {
    replies = JSON.parse(text);
  } catch {
    // The message of the parser repeats what was sent.
  }
  if (Array.isArray(replies) && replies.length === commands.length) return replies;
  throw new StoreUnavailableError(
    "the address does not answer as a database does: look at the option url",
  );
}

function resultOf(reply: unknown): unknown {
  const { result, error } = (reply ?? {}) as { result?: unknown; error?: unknown };
  if (error === undefined) return result;
  throw new StoreUnavailableError(`the database refused a command: ${shown(error)}`);
}

/** The error of a server, cut where it may repeat the command. */
function shown(error: unknown): string {
  if (typeof error !== "string") return described(error);
  return /^[A-Z]+(?: [a-z]{1,16}| DB){0,8}/i.exec(error)?.[0] ?? described(error);
}
