// The stores of used tokens behind a guard: those of Node in this process, those of Cloudflare in a
// Worker that is asked over HTTP, beside the store in memory in each of both places.

import { once } from "node:events";
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { DynamoDB } from "@aws-sdk/client-dynamodb";
import dynalite from "dynalite";
import { build } from "esbuild";
import pg from "pg";
import { createClient } from "redis";

import { NODES } from "../../runtimes/programs.mjs";
import { withMiniflare } from "../../stores/miniflare_server.mjs";
import { servers, withRedis } from "../../stores/redis_server.mjs";
import { Asking } from "./asking.mjs";

const WORKER = fileURLToPath(new URL("worker.mjs", import.meta.url));
const TABLE = "used_tokens";
/** Of the store in memory: more than is used in a measurement. */
const CAPACITY = 100_000;
/** Of connections to PostgreSQL, which an application of this size would have. */
const POOL = 16;

/**
 * Opens every store while `measure` measures them.
 *
 * @param {(stores: {
 *     name: string,
 *     open(namespace: string): (token: string) => Promise<boolean>,
 *   }[]) => Promise<T>} measure each use of `open` knows nothing of the others
 * @returns {Promise<T>}
 */
export async function withStores(consumer, sharedKey, measure) {
  const require = createRequire(join(consumer, "package.json"));
  const load = (entry) => require(`mailroom-verifier${entry}`);
  const { createGuard, createMemoryStore, createVerifier } = load("");
  const verifier = createVerifier({ keys: sharedKey });
  const guarded = (name, makeStore) => ({
    name,
    open(namespace) {
      const { tryRedeem } = createGuard({ verifier, store: makeStore(namespace) });
      return async (token) => (await tryRedeem(token, { action: "activate" })).ok;
    },
  });
  const { createRedisStore } = load("/stores/redis");
  const { createPostgresStore, TABLE: statements } = load("/stores/postgres");
  const { createDynamoDbStore } = load("/stores/dynamodb");

  return withClients(statements, (redis, pool, dynamo) =>
    withWorkers(consumer, sharedKey, (worker) =>
      measure([
        guarded("memory", () => createMemoryStore({ capacity: CAPACITY })),
        guarded("Redis", (namespace) => createRedisStore({ client: redis, namespace })),
        guarded("PostgreSQL", (namespace) => createPostgresStore({ client: pool, namespace })),
        guarded("DynamoDB, an emulator", (namespace) =>
          createDynamoDbStore({ client: dynamo, table: TABLE, namespace }),
        ),
        worker("a Worker, memory", "memory"),
        worker("a Worker, Durable Objects", "objects"),
        worker("a Worker, D1", "d1"),
      ]),
    ),
  );
}

async function withClients(statements, act) {
  const [server] = servers();
  if (server === undefined) throw new Error("no Redis is installed on this machine");
  const pool = new pg.Pool({ max: POOL });
  await pool.query(statements);
  const emulator = dynalite({ createTableMs: 0 }).listen(0, "127.0.0.1");
  await once(emulator, "listening");
  const dynamo = new DynamoDB({
    endpoint: `http://127.0.0.1:${emulator.address().port}`,
    region: "eu-central-1",
    // The emulator compares no signature.
    credentials: { accessKeyId: "id", secretAccessKey: "secret" },
  });
  await dynamo.createTable({
    TableName: TABLE,
    AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  });
  try {
    return await withRedis(server.program, {}, async (path) => {
      const redis = await createClient({ socket: { path } }).connect();
      try {
        return await act(redis, pool, dynamo);
      } finally {
        redis.destroy();
      }
    });
  } finally {
    dynamo.destroy();
    emulator.close();
    await pool.end();
  }
}

/** Serves the Worker while `act` has what makes a contestant of one of its stores. */
async function withWorkers(consumer, sharedKey, act) {
  // Miniflare needs a newer Node than the package.
  const node = NODES.at(-1).path();
  if (node === undefined) throw new Error("npm has no newer Node for this machine");
  const folder = join(consumer, "worker");
  await build({
    entryPoints: [WORKER],
    outdir: folder,
    bundle: true,
    format: "esm",
    platform: "neutral",
    conditions: ["workerd", "worker", "import"],
    loader: { ".wasm": "copy" },
    define: { SHARED_KEY: JSON.stringify(sharedKey) },
    nodePaths: [join(consumer, "node_modules")],
    logLevel: "error",
  });
  const main = "worker.js";
  const modules = [main, ...readdirSync(folder).filter((name) => name !== main)];
  const objects = { UsedToken: "UsedToken" };
  return withMiniflare(node, { folder, modules, databases: ["DB"], objects }, async (url) => {
    const asking = new Asking(url);
    const ask = async (path) => {
      const { status, text } = await asking.ask("POST", path);
      if (status !== 200) throw new Error(`the Worker answered ${status}: ${text}`);
      return text === "used";
    };
    await ask("/table");
    const contestant = (name, store) => ({
      name,
      open: (namespace) => (token) => ask(`/${store}/${namespace}/${token}`),
    });
    try {
      return await act(contestant);
    } finally {
      asking.end();
    }
  });
}
