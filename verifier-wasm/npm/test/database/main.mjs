// The adapters for clients of the database, each on a real PostgreSQL with the schema of Mailroom:
// `node main.mjs TARBALL FOLDER [TOPIC…]`, all topics unless some are named. FOLDER is made anew. A
// topic is a file of this folder that ends in `.topic.mjs`, whose `open` gives its client.
//
// The variables PGHOST, PGPORT, PGUSER and PGDATABASE name the database, on which
// `mailroom migrate up --without-accounts` was run by that user, a superuser. MAILROOM_TEST_PROGRAM
// is the program of `mailroom serve`.

import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

import { install } from "../runtimes/consumer.mjs";
import { Report } from "../runtimes/report.mjs";
import { outcomes } from "../stores/outcomes.mjs";
import { actions } from "./actions.mjs";
import { effects } from "./effects.mjs";
import { functions } from "./functions.mjs";
import { inTransactions } from "./in_transactions.mjs";
import { Scene } from "./scene.mjs";

const ENDING = ".topic.mjs";
const TOPICS = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith(ENDING))
  .map((name) => name.slice(0, -ENDING.length))
  .toSorted();

/** pg again, with the schema of the next version: last, since there is no way back. */
const NEXT_VERSION = "next-version";

const [tarball, folder, ...named] = process.argv.slice(2);
const topics = named.length > 0 ? named : [...TOPICS, NEXT_VERSION];
install(folder, tarball);
const require = createRequire(join(folder, "package.json"));
const load = (entry) => require(join("mailroom-verifier", entry));

const report = new Report();
const scene = await Scene.open();
await report.run("actions that are shipped", () => outcomes(actions(scene, load)));
for (const topic of topics) {
  if (topic === NEXT_VERSION) await scene.toNextVersion();
  const name = topic === NEXT_VERSION ? "pg" : topic;
  const { elsewhere, open } = await import(`./${name}${ENDING}`);
  if (elsewhere && !process.versions.bun) {
    await report.run(topic, () => outcomes(elsewhere(tarball, folder)));
    continue;
  }
  const client = await open(scene, load("database"), folder);
  const subject = { ...client, scene, load, api: load("database") };
  await report.run(`${topic}, its functions`, () => outcomes(functions(subject)));
  if (client.transaction) {
    await report.run(`${topic}, in transactions`, () => outcomes(inTransactions(subject)));
    await report.run(`${topic}, effects of links`, () => outcomes(effects(subject)));
  }
  if (client.more)
    await report.run(`${topic}, in particular`, () => outcomes(client.more(subject)));
  for (const [where, program, run] of client.elsewhere?.(subject) ?? []) {
    const title = `${topic}, on ${where}`;
    if (program === undefined) report.missing(title, "npm has no program for this machine");
    else await report.run(title, run);
  }
  await client.end();
}
await scene.close();
report.end();
