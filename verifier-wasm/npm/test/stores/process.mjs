// One of several processes that share a store: reads from its standard input which,
// and prints what it got.

import { createRequire } from "node:module";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

const CALLS = 100;

const { folder, kind, server, links, at } = JSON.parse(await text(process.stdin));
const require = createRequire(join(folder, "package.json"));
const { createVerifier, createGuard } = require("mailroom-verifier");
const { errorOf } = require("mailroom-verifier/errors");
const { store, end } = await stores()[kind]();
const { tryRedeem } = createGuard({
  verifier: createVerifier({ keys: links.key }),
  store,
  storeTimeout: 60,
});

const counts = { ran: 0, verdicts: 0, other: "" };
const expected = new Set([
  "ERR_TOKEN_USED",
  "ERR_TOO_MANY_ATTEMPTS",
  "ERR_CODE_MISMATCH",
  undefined,
]);
await sleep(at - Date.now());
const results = await Promise.all(
  Array.from({ length: 2 * CALLS }, (_, call) =>
    call % 2 === 0
      ? tryRedeem(links.activation, { action: "activate" }, () => {
          counts.ran += 1;
        })
      : tryRedeem(links.recovery, { action: "recover", code: "00000" }),
  ),
);
counts.verdicts = results.filter(({ reason }) => reason === "ERR_CODE_MISMATCH").length;
const others = results.filter(({ reason }) => !expected.has(reason));
counts.other = [
  ...new Set(others.map((refusal) => `${refusal.message}: ${errorOf(refusal).cause}; `)),
].join(", ");
await end();
console.log(JSON.stringify(counts));

function stores() {
  return {
    async dynamodb() {
      const { DynamoDB } = await import("@aws-sdk/client-dynamodb");
      const client = new DynamoDB(server.client);
      const { createDynamoDbStore } = require("mailroom-verifier/stores/dynamodb");
      const store = createDynamoDbStore({ client, table: server.table, namespace: "processes" });
      return { store, end: () => client.destroy() };
    },
    async redis() {
      const { createClient } = await import("redis");
      const client = await createClient({ socket: server }).connect();
      const { createRedisStore } = require("mailroom-verifier/stores/redis");
      return {
        store: createRedisStore({ client, namespace: "processes" }),
        end: () => client.close(),
      };
    },
    async postgres() {
      const { default: pg } = await import("pg");
      const pool = new pg.Pool(server);
      const { createPostgresStore } = require("mailroom-verifier/stores/postgres");
      return {
        store: createPostgresStore({ client: pool, namespace: "processes" }),
        end: () => pool.end(),
      };
    },
  };
}
