/**
 * A store of used tokens in Redis or Valkey, for any number of processes, through the client that you have: node-redis,
 * ioredis, or whatever else sends a command.
 *
 * @module
 */

import {
  hexadecimal,
  InvalidArgumentError,
  readClock,
  readMethod,
  readNamespace,
  readOptions,
  StoreFullError,
  StoreUnavailableError,
  TokenExpiredError,
} from "../store.js";
import type { TokenStore } from "../token_store.js";
import attemptScript from "./redis/attempt.lua";
import consumeScript from "./redis/consume.lua";

/**
 * A connected client: one of node-redis (which has `sendCommand`), one of ioredis (which has `call`), or a function that
 * sends a command, given as its words, and returns the reply.
 */
export type RedisClient =
  | { sendCommand(words: string[]): Promise<unknown> }
  | { call(command: string, ...words: string[]): Promise<unknown> }
  | ((words: string[]) => Promise<unknown>);

/** What {@link createRedisStore} takes. Options of other names are refused. */
export interface RedisStoreOptions {
  readonly client: RedisClient;
  /** Begins the name of every key: 1 to 64 letters, digits, dots, hyphens and underscores. One for each installation. */
  readonly namespace: string;
  /**
   * Tells the time in seconds since the Unix epoch, from which it follows for how long an entry is remembered.
   *
   * @default the system's clock
   */
  readonly clock?: (() => number) | undefined;
}

/** For how many milliseconds it is believed that the server still evicts nothing. */
const POLICY_HOLDS = 60_000;

/**
 * Remembers used tokens in Redis or Valkey.
 *
 * An entry is made by `SET … NX PX` and ends by itself. The server must not evict entries (`maxmemory-policy noeviction`):
 * this is looked up before the first use and again every minute, and a server that evicts is refused. A server that is
 * full then refuses to remember, and the guard denies with `ERR_STORE_FULL`.
 *
 * A failover to a replica that lags behind forgets the last entries; so does a restart without persistence. The database
 * still decides.
 *
 * @throws InvalidArgumentError
 * @example
 * const store = createRedisStore({ client: await createClient().connect(), namespace: "mailroom" });
 */
export function createRedisStore(options: RedisStoreOptions): Required<TokenStore> {
  const [client, namespace, clock] = readOptions(options, ["client", "namespace", "clock"]);
  const send = readClient(client);
  const prefix = readNamespace(namespace);
  const now = readClock(clock);
  const evictsNothing = watchPolicy(send);

  async function run(script: string, kind: string, id: Uint8Array, rememberUntil: number): Promise<number> {
    const key = `${prefix}:${kind}:${hexadecimal(id)}`;
    await evictsNothing();
    // Relative, so that the server's clock need not agree with anybody's.
    const milliseconds = Math.ceil((rememberUntil - now()) * 1000);
    if (!(milliseconds > 0))
      throw new TokenExpiredError("the time until which to remember this token is over");
    try {
      return Number(await send(["EVAL", script, "1", key, String(milliseconds)]));
    } catch (cause) {
      if (isFull(cause))
        throw new StoreFullError("the Redis server has no memory left for used tokens", { cause });
      throw cause;
    }
  }

  return Object.freeze<Required<TokenStore>>({
    async consume(id, rememberUntil) {
      const answer = await run(consumeScript, "used", id, rememberUntil);
      if (answer === 1) return true;
      if (answer === 0) return false;
      throw new StoreUnavailableError("the Redis server answered what is no answer");
    },
    attempt: (id, rememberUntil) => run(attemptScript, "tries", id, rememberUntil),
    async release(id) {
      await send(["DEL", `${prefix}:used:${hexadecimal(id)}`]);
    },
  });
}

type Send = (words: string[]) => Promise<unknown>;

function readClient(client: unknown): Send {
  if (typeof client === "function") return async (words) => client(words);
  // ioredis has a method sendCommand, too, which takes something else.
  const call = readMethod(client, "call");
  if (call) return async (words) => call(...words);
  const sendCommand = readMethod(client, "sendCommand");
  if (sendCommand) return async (words) => sendCommand(words);
  throw new InvalidArgumentError(
    "the option client is a client of node-redis or ioredis, or a function that sends a command",
  );
}

/** Makes what fails unless the server evicts nothing; many who ask at once ask the server once. */
function watchPolicy(send: Send): () => Promise<void> {
  let holdsUntil = Number.NEGATIVE_INFINITY;
  let asking: Promise<void> | undefined;
  return async () => {
    // Not the clock of the tokens, which may be one of a test.
    if (performance.now() < holdsUntil) return;
    asking ??= refuseEviction(send)
      .then(() => {
        holdsUntil = performance.now() + POLICY_HOLDS;
      })
      .finally(() => {
        asking = undefined;
      });
    await asking;
  };
}

async function refuseEviction(send: Send): Promise<void> {
  // Unlike CONFIG, INFO is allowed on most hosted servers.
  const policy = /^maxmemory_policy:(\S+)/m.exec(String(await send(["INFO", "memory"])))?.[1];
  if (policy === "noeviction") return;
  throw new StoreUnavailableError(
    policy === undefined
      ? "the Redis server does not say that it evicts nothing: its INFO memory has no maxmemory_policy"
      : `the Redis server may evict used tokens, which lets them be replayed: set maxmemory-policy to noeviction, not ${policy}`,
  );
}

function isFull(error: unknown): boolean {
  return error instanceof Error && /\bOOM\b/.test(error.message);
}
