// The store in Redis and Valkey, by either client, on servers of its own.

import { randomBytes } from "node:crypto";

import { Redis } from "ioredis";
import { createClient } from "redis";

import { rejection, same } from "../runtimes/suite/expect.mjs";
import { freshLinks } from "./links.mjs";
import { interruptions, threeEffects } from "./interruptions.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { acrossProcesses } from "./processes.mjs";
import { CuttingProxy } from "./proxy.mjs";
import { redeeming } from "./redeeming.mjs";
import { redisCluster } from "./redis_cluster.mjs";
import { COMMAND_TIMEOUT, servers, withRedis } from "./redis_server.mjs";
import { until as come } from "../waiting.mjs";

/** How each client connects to a socket: the client, how it sends a command, how it ends. */
const CLIENTS = {
  async "node-redis"(path) {
    const client = createClient({
      socket: { path, reconnectStrategy: false, connectTimeout: COMMAND_TIMEOUT },
      disableOfflineQueue: true,
      commandOptions: { timeout: COMMAND_TIMEOUT },
    });
    client.on("error", () => {});
    await client.connect();
    return { client, send: (...words) => client.sendCommand(words), end: () => client.destroy() };
  },
  async ioredis(path) {
    const client = new Redis({
      path,
      connectTimeout: COMMAND_TIMEOUT,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      lazyConnect: true,
    });
    client.on("error", () => {});
    await client.connect();
    return { client, send: (...words) => client.call(...words), end: () => client.disconnect() };
  },
  async "a function"(path) {
    const { client, send, end } = await CLIENTS["node-redis"](path);
    return { client: (words) => client.sendCommand(words), send, end };
  },
};

const owner = (number) => new Uint8Array(16).fill(number);

/**
 * Clients as they are by default, which connect again,
 * and of which ioredis sends again what was not answered.
 */
const RESENDING = {
  "node-redis": async (port) => {
    const client = createClient({ socket: { host: "127.0.0.1", port } });
    client.on("error", () => {});
    return { client: await client.connect(), end: () => client.destroy() };
  },
  ioredis: async (port) => {
    const client = new Redis(port, "127.0.0.1");
    client.on("error", () => {});
    return { client, end: () => client.disconnect() };
  },
};

async function interrupted({ report, load, title, path, connect, direct }) {
  const verifierPackage = load(".");
  const { createRedisStore } = load("stores/redis");
  const proxy = await CuttingProxy.start({ path }, (bytes) => bytes.includes("EVAL"));
  const { client, end } = await connect(proxy.port);
  const namespace = "interrupted";
  const stores = [client, direct].map((one) => createRedisStore({ client: one, namespace }));
  await report.run(`${title}, connections that are cut`, () =>
    outcomes(interruptions(verifierPackage, freshLinks, proxy, ...stores)),
  );
  await report.run(`${title}, a release that comes again`, () =>
    outcomes(
      threeEffects(verifierPackage, freshLinks, proxy, ...stores, {
        resends: title.endsWith("ioredis"),
      }),
    ),
  );
  end();
  await proxy.end();
}

export async function run({ report, load, folder }) {
  const found = servers();
  if (found.length === 0) {
    report.missing("Redis", "there is no redis-server; install Debian's package redis-server");
  }
  for (const { name, program } of found) {
    for (const [by, connect] of Object.entries(CLIENTS)) {
      await onServer({ report, load, folder, title: `${name} by ${by}`, program, connect });
    }
    await redisCluster({ report, load, name, program });
  }
  if (!found.some(({ name }) => name === "valkey")) {
    console.log(
      "Valkey: not on this machine (Debian has a package valkey-server from version 13 on)",
    );
  }
}

async function onServer({ report, load, folder, title, program, connect }) {
  const verifierPackage = load(".");
  const { checkStore } = load("conformance");
  const { createRedisStore } = load("stores/redis");
  const errors = load("errors");
  const subject = { errors };

  await withRedis(program, { "maxmemory-policy": "noeviction" }, (path) =>
    withRedis(program, { "maxmemory-policy": "noeviction", maxmemory: "4mb" }, (smallPath) =>
      withRedis(program, { "maxmemory-policy": "noeviction" }, async (awayPath, stop) => {
        const connections = await Promise.all([path, smallPath, awayPath].map(connect));
        const [store, small, unreachable] = connections.map(({ client }) =>
          createRedisStore({ client, namespace: "conformance" }),
        );
        // It was there, and goes away.
        await unreachable.consume(new Uint8Array(16), Date.now() / 1000 + 60, owner(1));
        await stop();
        await report.run(`${title}, conformance`, async () =>
          ofChecks(await checkStore({ store, unreachable, small })),
        );
        // Less than it has in use.
        await connections[1].send("CONFIG", "SET", "maxmemory", "1mb");
        await report.run(`${title}, a full server and one that is away`, () =>
          outcomes(denials(subject, verifierPackage, small, unreachable)),
        );
        const [{ client, send }] = connections;
        const makeStore = () => createRedisStore({ client, namespace: "redeeming" });
        await report.run(`${title}, redeeming`, () =>
          outcomes(redeeming({ ...verifierPackage, ...load("handler") }, freshLinks(), makeStore)),
        );
        await report.run(`${title}, keys`, () =>
          outcomes(keys(subject, createRedisStore, client, send)),
        );
        if (title.endsWith("node-redis")) {
          await report.run(`${title}, processes`, () =>
            outcomes(acrossProcesses(folder, "redis", { path })),
          );
        }
        const [, by] = title.split(" by ");
        if (RESENDING[by]) {
          await interrupted({ report, load, title, path, connect: RESENDING[by], direct: client });
        }
        for (const { end } of connections) {
          end();
        }
      }),
    ),
  );
  for (const policy of ["allkeys-lru", "volatile-ttl"]) {
    await withRedis(program, { "maxmemory-policy": policy }, async (path) => {
      const { client, send, end } = await connect(path);
      await report.run(`${title}, a server of ${policy}`, () =>
        outcomes([
          [
            "a server that may evict is refused, until it does not",
            async () => {
              const store = createRedisStore({ client, namespace: "mailroom" });
              const call = (method) => () =>
                store[method](new Uint8Array(16), Date.now() / 1000 + 60, owner(1));
              for (const method of ["consume", "attempt", "release", "withdraw"]) {
                const error = await rejection(
                  subject,
                  "ERR_STORE_UNAVAILABLE",
                  method,
                  call(method),
                );
                same(
                  /noeviction/.test(error.message) && error.message.includes(policy),
                  true,
                  error.message,
                );
              }
              same(await send("DBSIZE"), 0, "keys");
              await send("CONFIG", "SET", "maxmemory-policy", "noeviction");
              same(await call("consume")(), true, "without eviction");
            },
          ],
        ]),
      );
      end();
    });
  }
}

function* denials(subject, { createVerifier, createGuard }, small, unreachable) {
  const { key, activation } = freshLinks();
  const verifier = createVerifier({ keys: key });
  for (const [what, store, code] of [
    ["a full server", small, "ERR_STORE_FULL"],
    ["a server that is away", unreachable, "ERR_STORE_UNAVAILABLE"],
  ]) {
    yield [
      `${what} denies`,
      async () => {
        const { redeem } = createGuard({ verifier, store, storeTimeout: 60 });
        const error = await rejection(subject, code, what, () =>
          redeem(activation, { action: "activate" }),
        );
        same(error.cause instanceof Error, true, "a cause");
      },
    ];
  }
}

function* keys(subject, createRedisStore, client, send) {
  const id = Uint8Array.from({ length: 16 }, (_, byte) => byte + 240);
  const name = Buffer.from(id).toString("hex");
  const until = () => Date.now() / 1000 + 100;

  yield [
    "all of a link is in one key, which carries the namespace and ends by itself, " +
      "however often it is asked for",
    async () => {
      const store = createRedisStore({ client, namespace: "keys" });
      await Promise.all(
        Array.from({ length: 1000 }, () => store.attempt(id, until(), randomBytes(16))),
      );
      await store.withdraw(id, until(), owner(1));
      await store.consume(id, until() + 100, owner(1));
      await store.release(id, until(), owner(2));
      same((await send("KEYS", "keys:*")).map(String).join(), `keys:${name}`, "keys");
      const left = Number(await send("PTTL", `keys:${name}`));
      // By the later of the two times, of which a busy machine may have used up some.
      same(left > 100_000 && left <= 200_000, true, `it ends in ${left} ms`);
    },
  ];
  yield [
    "what is released or withdrawn when its time is over leaves nothing behind",
    async () => {
      const store = createRedisStore({ client, namespace: "over" });
      for (const method of ["release", "withdraw"]) {
        await store[method](id, Date.now() / 1000 - 10, owner(1));
      }
      await come(
        "keys whose time is over to be gone",
        async () => Number(await send("EXISTS", `over:${name}`)) === 0,
      );
    },
  ];
  yield [
    "two namespaces know nothing of each other",
    async () => {
      for (const namespace of ["one", "two"]) {
        const store = createRedisStore({ client, namespace });
        same(await store.consume(id, until(), owner(1)), true, namespace);
        same(await store.attempt(id, until(), owner(1)), 1, namespace);
      }
    },
  ];
  yield [
    "a client that answers what is no answer is told from a server that is away",
    async () => {
      for (const [reply, shown] of [
        ["OK", 'the string "OK"'],
        [null, "null"],
        ["x".repeat(40), "a string of 40 characters"],
        [{}, "an object"],
      ]) {
        const answers = createRedisStore({
          client: (words) => (words[0] === "INFO" ? "maxmemory_policy:noeviction" : reply),
          namespace: "answers",
        });
        for (const method of ["consume", "attempt", "release", "withdraw"]) {
          const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", method, () =>
            answers[method](id, until(), owner(1)),
          );
          same(
            error.message,
            `the client answered EVAL with ${shown}, not with an integer`,
            method,
          );
        }
      }
    },
  ];
  for (const options of [
    { client },
    { client, namespace: "" },
    { client, namespace: "a:b" },
    { client, namespace: "a".repeat(65) },
    { client: {}, namespace: "mailroom" },
    { client: null, namespace: "mailroom" },
    { namespace: "mailroom" },
    { client, namespace: "mailroom", prefix: "p" },
    { client, namespace: "mailroom", clock: 5 },
  ]) {
    const namespace = options.namespace?.slice(0, 10);
    yield [
      `the options ${Object.keys(options)} with the namespace ${namespace} are refused`,
      () =>
        rejection(subject, "ERR_INVALID_ARGUMENT", "options", async () =>
          createRedisStore(options),
        ),
    ];
  }
}
