/**
 * A store of used tokens in Redis or Valkey, for any number of processes, through the client that
 * you have: node-redis, ioredis, or whatever else sends a command.
 *
 * @module
 */

import { described } from "../../arguments/described.js";
import { readMethod, readOptions } from "../../arguments/options.js";
import { InvalidArgumentError, StoreUnavailableError } from "../../errors/errors.js";
import { INFO, POLICY_HOLDS, refuseEviction, scripted } from "../../stores/redis/scripted.js";
import type { TokenStore } from "../../stores/token_store.js";

/**
 * A connected client: one of node-redis (which has `sendCommand`) or of ioredis (which has `call`),
 * of a server or of a cluster, or a function that sends a command, given as its words,
 * and returns the reply.
 */
export type RedisClient =
  | { sendCommand(words: string[]): Promise<unknown> }
  | { call(command: string, ...words: string[]): Promise<unknown> }
  | RedisCluster
  | ((words: string[]) => Promise<unknown>);

/** A cluster of node-redis. */
export interface RedisCluster {
  sendCommand(firstKey: string, isReadonly: boolean, words: string[]): Promise<unknown>;
  readonly masters: readonly object[];
  // biome-ignore lint/suspicious/noExplicitAny: the class of nodes is the client's own
  nodeClient(node: any): unknown;
}

/** What {@link createRedisStore} takes. Options of other names are refused. */
export interface RedisStoreOptions {
  readonly client: RedisClient;
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
}

/**
 * Remembers used tokens in Redis or Valkey, each in one key, by one script for each operation: a
 * client that sends a command again whose reply was lost, as ioredis does, changes nothing by that.
 *
 * An entry ends by itself. The server must not evict entries (`maxmemory-policy noeviction`): this
 * is looked up before the first use and again every minute, of a cluster on every master, and a
 * server that evicts is refused. A function that sends to a cluster is asked once, so look at the
 * other nodes yourself. A server that is full refuses to remember, and the guard denies with
 * `ERR_STORE_FULL`.
 *
 * A failover to a replica that lags behind forgets the last entries; so does a restart without
 * persistence. The database still decides. Entries end after so many seconds as were left by the
 * clock of whoever asked: one that is behind makes them live longer, one that has read the future
 * has them end sooner, or refuses links that are still valid, only as long as it does.
 *
 * @throws InvalidArgumentError
 * @example
 * const client = await createClient().connect();
 * const store = createRedisStore({ client, namespace: "mailroom" });
 */
export function createRedisStore(options: RedisStoreOptions): Required<TokenStore> {
  const [client, namespace, clock] = readOptions(options, ["client", "namespace", "clock"]);
  const { send, nodes } = readClient(client);
  const evictsNothing = watchPolicy(nodes);

  return scripted(
    async (key, words) => {
      await evictsNothing();
      return send(key, words);
    },
    namespace,
    clock,
  );
}

/** Sends a command to the server that has the key. */
type Send = (key: string, words: string[]) => Promise<unknown>;

/** Sends a command to one server. */
type Node = (words: string[]) => Promise<unknown>;

interface ReadClient {
  readonly send: Send;
  /** The servers that may have keys, as the client knows them now. */
  nodes(): readonly Node[];
}

function readClient(client: unknown): ReadClient {
  if (typeof client === "function") return ofNode(async (words) => client(words));
  // A cluster of node-redis.
  const nodeClient = readMethod(client, "nodeClient");
  const sendCommand = readMethod(client, "sendCommand");
  if (nodeClient && sendCommand) {
    return {
      send: async (key, words) => sendCommand(key, false, words),
      nodes: () =>
        (client as RedisCluster).masters.map((master) => async (words) => {
          const node = (await nodeClient(master)) as {
            sendCommand(words: string[]): Promise<unknown>;
          };
          return node.sendCommand(words);
        }),
    };
  }
  // ioredis has a method sendCommand, too, which takes something else.
  const call = readMethod(client, "call");
  if (call) {
    const masters = readMethod(client, "nodes");
    const send: Send = async (_, words) => call(...words);
    if (!masters) return ofNode((words) => send("", words));
    return {
      send,
      nodes: () =>
        (masters("master") as unknown[]).map((master) => readClient(master).nodes()[0] as Node),
    };
  }
  if (sendCommand) return ofNode(async (words) => sendCommand(words));
  throw new InvalidArgumentError(
    "the option client must be a client of node-redis or ioredis, " +
      `or a function that sends a command, not ${described(client)}`,
  );
}

function ofNode(node: Node): ReadClient {
  return { send: (_, words) => node(words), nodes: () => [node] };
}

/** Makes a check that fails if a server evicts entries; simultaneous calls share one check. */
function watchPolicy(nodes: ReadClient["nodes"]): () => Promise<void> {
  let holdsUntil = Number.NEGATIVE_INFINITY;
  let asking: Promise<unknown> | undefined;
  return async () => {
    // Not the clock of the tokens, which may be one of a test.
    if (performance.now() < holdsUntil) return;
    asking ??= askAll(nodes)
      .then(() => {
        holdsUntil = performance.now() + POLICY_HOLDS;
      })
      .finally(() => {
        asking = undefined;
      });
    await asking;
  };
}

async function askAll(nodes: ReadClient["nodes"]): Promise<void> {
  const all: unknown = nodes();
  if (!Array.isArray(all) || all.length === 0)
    throw new StoreUnavailableError(
      "the Redis client knows no master of its cluster: connect it first",
    );
  await Promise.all(all.map(async (node: Node) => refuseEviction(await node([...INFO]))));
}
