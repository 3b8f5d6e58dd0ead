// The store in Redis over HTTP, against a stand-in for the service in front of the real server.

import { createServer } from "node:http";

import { createClient } from "redis";

import { rejection, same } from "../runtimes/suite/expect.mjs";
import { interruptions, threeEffects } from "./interruptions.mjs";
import { freshLinks } from "./links.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { CuttingProxy } from "./proxy.mjs";
import { redeeming } from "./redeeming.mjs";
import { COMMAND_TIMEOUT, servers, withRedis } from "./redis_server.mjs";
import { UpstashServer } from "./upstash_server.mjs";

const TOKEN = "AYAgASQgOWE2NzY4ZTctNzU3YS00";
const owner = (number) => new Uint8Array(16).fill(number);
const until = () => Date.now() / 1000 + 100;
const METHODS = ["consume", "attempt", "release", "withdraw"];

export async function run({ report, load }) {
  const [found] = servers();
  if (found === undefined) {
    report.missing(
      "Redis over HTTP",
      "there is no redis-server; install Debian's package redis-server",
    );
    return;
  }
  const title = `${found.name} over HTTP`;
  const { createUpstashStore } = load("stores/upstash");
  const subject = { errors: load("errors") };
  const make = (url, namespace) => createUpstashStore({ url, token: TOKEN, namespace });

  await withUpstash(found.program, { maxmemory: "1500kb" }, (small) =>
    withUpstash(found.program, {}, async (server, redis) => {
      const away = await UpstashServer.start(redis, TOKEN);
      await away.end();
      const store = make(server.url, "conformance");
      await report.run(`${title}, conformance`, async () =>
        ofChecks(
          await load("conformance").checkStore({
            store,
            unreachable: make(away.url, "conformance"),
            small: make(small.url, "conformance"),
          }),
        ),
      );
      await report.run(`${title}, redeeming`, () =>
        outcomes(
          redeeming(
            { ...load("."), ...load("handler") },
            freshLinks(),
            () => make(server.url, "redeeming"),
            200,
          ),
        ),
      );
      await report.run(`${title}, requests`, () =>
        outcomes(requests(subject, createUpstashStore, server, redis)),
      );
      const proxy = await CuttingProxy.start({ host: "127.0.0.1", port: server.port }, (bytes) =>
        bytes.includes("EVAL"),
      );
      const stores = [`http://127.0.0.1:${proxy.port}`, server.url].map((url) =>
        make(url, "interrupted"),
      );
      await report.run(`${title}, connections that are cut`, () =>
        outcomes([
          ...interruptions(load("."), freshLinks, proxy, ...stores),
          ...threeEffects(load("."), freshLinks, proxy, ...stores),
        ]),
      );
      await proxy.end();
    }),
  );
  await report.run(`${title}, answers`, () => outcomes(answers(subject, createUpstashStore)));
}

/** Runs a server of Redis, and the stand-in before it. */
async function withUpstash(program, settings, use) {
  await withRedis(program, { "maxmemory-policy": "noeviction", ...settings }, async (path) => {
    const redis = createClient({ socket: { path }, commandOptions: { timeout: COMMAND_TIMEOUT } });
    redis.on("error", () => {});
    await redis.connect();
    const server = await UpstashServer.start(redis, TOKEN);
    await use(server, redis);
    await server.end();
    redis.destroy();
  });
}

function* requests(subject, createUpstashStore, server, redis) {
  const { url } = server;
  yield [
    "each operation is one request, of which the first of a minute asks for the policy, too",
    async () => {
      const store = createUpstashStore({ url, token: TOKEN, namespace: "requests" });
      server.requests.length = 0;
      for (const method of METHODS) await store[method](owner(1), until(), owner(2));
      const sent = server.requests.map((commands) => commands.map(([name]) => name).join());
      same(sent.join(" "), "INFO,EVAL EVAL EVAL EVAL", "requests");
    },
  ];
  yield [
    "a database that may evict is refused until it does not",
    async () => {
      await redis.sendCommand(["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
      const store = createUpstashStore({ url, token: TOKEN, namespace: "evicting" });
      const consume = (number) => store.consume(owner(number), until(), owner(2));
      const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", "eviction", () => consume(1));
      same(/noeviction, not allkeys-lru/.test(error.message), true, error.message);
      await redis.sendCommand(["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
      same(await consume(2), true, "without eviction");
    },
  ];
  yield [
    "a token that is refused is not in the error",
    async () => {
      const token = "BYAgASQgOWE2NzY4ZTctNzU3YS00";
      const store = createUpstashStore({ url, token, namespace: "mailroom" });
      for (const method of METHODS) {
        const call = () => store[method](owner(1), until(), owner(2));
        const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", method, call);
        same(`${error.stack} ${error.cause}`.includes(token), false, "the token is shown");
        same(/refuses the token/.test(error.message), true, error.message);
      }
    },
  ];
  const given = { url, token: TOKEN, namespace: "mailroom" };
  for (const [name, value] of [
    ["url", undefined],
    ["url", TOKEN],
    ["url", "http://database.example"],
    ["url", "https://user:password@database.example"],
    ["url", "https://database.example/?_token=secret"],
    ["url", "https://database.example/#a"],
    ["url", "file:///tmp"],
    ["url", new URL(url)],
    ["token", undefined],
    ["token", ""],
    ["token", "two words"],
    ["token", "a\r\nx-header: b"],
    ["token", "ü"],
    ["namespace", "a:b"],
    ["clock", 5],
    ["fetch", "fetch"],
    ["client", {}],
  ]) {
    yield [
      `the option ${name} is refused as ${JSON.stringify(value)}`,
      async () => {
        const call = async () => createUpstashStore({ ...given, [name]: value });
        const error = await rejection(subject, "ERR_INVALID_ARGUMENT", "options", call);
        for (const secret of [TOKEN, "password", "_token"])
          same(error.message.includes(secret), false, error.message);
      },
    ];
  }
}

/** Servers that answer what a database does not. */
function* answers(subject, createUpstashStore) {
  const noeviction = { result: "maxmemory_policy:noeviction" };
  const json = (value) => JSON.stringify(value);
  for (const [what, status, text, code, headers] of [
    ["a page", 200, "<html>", "ERR_STORE_UNAVAILABLE"],
    ["nothing", 200, "", "ERR_STORE_UNAVAILABLE"],
    ["null", 200, "null", "ERR_STORE_UNAVAILABLE"],
    ["one reply too few", 200, json([noeviction]), "ERR_STORE_UNAVAILABLE"],
    [
      "one reply too many",
      200,
      json([noeviction, { result: 1 }, { result: 1 }]),
      "ERR_STORE_UNAVAILABLE",
    ],
    ["replies that are null", 200, json([null, null]), "ERR_STORE_UNAVAILABLE"],
    ["no policy", 200, json([{ result: "# Memory" }, { result: 1 }]), "ERR_STORE_UNAVAILABLE"],
    ["an integer as text", 200, json([noeviction, { result: "1" }]), "ERR_STORE_UNAVAILABLE"],
    ["true", 200, json([noeviction, { result: true }]), "ERR_STORE_UNAVAILABLE"],
    [
      "an error beside a result",
      200,
      json([noeviction, { result: 1, error: "ERR" }]),
      "ERR_STORE_UNAVAILABLE",
    ],
    [
      "an error that is an object",
      200,
      json([noeviction, { error: { a: TOKEN } }]),
      "ERR_STORE_UNAVAILABLE",
    ],
    [
      "an error with the token",
      200,
      json([noeviction, { error: `ERR ${TOKEN}` }]),
      "ERR_STORE_UNAVAILABLE",
    ],
    [
      "no room",
      200,
      json([noeviction, { error: "ERR DB capacity quota exceeded" }]),
      "ERR_STORE_FULL",
    ],
    ["a redirect", 307, "", "ERR_STORE_UNAVAILABLE", { location: "/pipeline" }],
    ["an outage", 503, json([noeviction, { result: 1 }]), "ERR_STORE_UNAVAILABLE"],
  ]) {
    yield [
      `a server that answers ${what} lets nothing through`,
      async () => {
        const server = createServer((request, response) => {
          request.resume().on("end", () => response.writeHead(status, headers).end(text));
        }).listen(0, "127.0.0.1");
        await new Promise((resolve) => server.once("listening", resolve));
        const url = `http://127.0.0.1:${server.address().port}/`;
        for (const method of METHODS) {
          const store = createUpstashStore({ url, token: TOKEN, namespace: "mailroom" });
          const error = await rejection(subject, code, method, () =>
            store[method](owner(1), until(), owner(2)),
          );
          same(
            error.message.includes(TOKEN) || String(error.cause).includes(TOKEN),
            false,
            error.message,
          );
        }
        server.close();
        server.closeAllConnections();
      },
    ];
  }
}
