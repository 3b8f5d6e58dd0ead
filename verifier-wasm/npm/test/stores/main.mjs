// The stores of used tokens, each against the real thing: `node main.mjs TARBALL FOLDER TOPIC…`.
// FOLDER is made anew. A topic is a file of this folder that ends in `.topic.mjs`.
//
// The topic `postgres` finds its server by the variables PGHOST, PGPORT, PGUSER and PGDATABASE.

import { createRequire } from "node:module";
import { join } from "node:path";

import { install } from "../runtimes/consumer.mjs";
import { Report } from "../runtimes/report.mjs";

const [tarball, folder, ...topics] = process.argv.slice(2);
const installed = install(folder, tarball);
const require = createRequire(join(folder, "package.json"));
const load = (entry) => require(join("mailroom-verifier", entry));

const report = new Report();
for (const topic of topics) {
  const { run } = await import(`./${topic}.topic.mjs`);
  await run({ report, load, folder, installed });
}
report.end();
