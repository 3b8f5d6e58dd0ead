// The stores of used tokens, each against the real thing: `node main.mjs TARBALL FOLDER TOPIC…`.
// FOLDER is made anew.
//
// The topic `postgres` finds its server by the variables PGHOST, PGPORT, PGUSER and PGDATABASE.

import { createRequire } from "node:module";
import { join } from "node:path";

import { install } from "../runtimes/consumer.mjs";
import { Report } from "../runtimes/report.mjs";
import { d1 } from "./d1.mjs";
import { denoKv } from "./deno_kv.mjs";
import { durableObjects } from "./durable_objects.mjs";
import { dynamodb } from "./dynamodb.mjs";
import { kit } from "./kit.mjs";
import { memory } from "./memory.mjs";
import { postgres } from "./postgres.mjs";
import { redis } from "./redis.mjs";
import { upstash } from "./upstash.mjs";

const TOPICS = {
  kit,
  memory,
  redis,
  upstash,
  "durable-objects": durableObjects,
  d1,
  "deno-kv": denoKv,
  dynamodb,
  postgres,
};

const [tarball, folder, ...topics] = process.argv.slice(2);
const installed = install(folder, tarball);
const require = createRequire(join(folder, "package.json"));
const load = (entry) => require(join("mailroom-verifier", entry));

const report = new Report();
for (const topic of topics) {
  await TOPICS[topic]({ report, load, folder, installed });
}
report.end();
