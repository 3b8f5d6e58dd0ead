// The adapters for clients of the database, each on a real PostgreSQL with the schema of Mailroom:
// `node main.mjs TARBALL FOLDER [TOPIC…]`, all topics unless some are named. FOLDER is made anew.
//
// The variables PGHOST, PGPORT, PGUSER and PGDATABASE name the database, on which
// `mailroom migrate up --without-accounts` was run by that user, a superuser. MAILROOM_TEST_PROGRAM
// is the program of `mailroom serve`.

import { createRequire } from "node:module";
import { join } from "node:path";

import { install } from "../runtimes/consumer.mjs";
import { Report } from "../runtimes/report.mjs";
import { outcomes } from "../stores/outcomes.mjs";
import { actions } from "./actions.mjs";
import { effects } from "./effects.mjs";
import { functions } from "./functions.mjs";
import { inTransactions } from "./in_transactions.mjs";
import { byBunSql, onBun } from "./bun.mjs";
import { byDrizzle } from "./drizzle.mjs";
import { byHttp } from "./http.mjs";
import { byKysely } from "./kysely.mjs";
import { byNeon } from "./neon.mjs";
import { byPg } from "./pg.mjs";
import { byPostgresJs } from "./postgres_js.mjs";
import { byPostgrest } from "./postgrest.mjs";
import { Scene } from "./scene.mjs";

/** On Bun its own client, which no other runtime has. */
const TOPICS = process.versions.bun
  ? { "bun-sql": byBunSql }
  : {
      pg: byPg,
      "postgres-js": byPostgresJs,
      drizzle: byDrizzle,
      kysely: byKysely,
      bun: onBun,
      neon: byNeon,
      postgrest: byPostgrest,
      http: byHttp,
      // The schema of the next version, last, since there is no way back.
      "next-version": byPg,
    };

const [tarball, folder, ...named] = process.argv.slice(2);
const topics = named.length > 0 ? named : Object.keys(TOPICS);
install(folder, tarball);
const require = createRequire(join(folder, "package.json"));
const load = (entry) => require(join("mailroom-verifier", entry));

const report = new Report();
const scene = await Scene.open();
await report.run("actions that are shipped", () => outcomes(actions(scene, load)));
for (const topic of topics) {
  if (topic === "bun") {
    await report.run("Bun", () => outcomes(onBun(tarball, folder)));
    continue;
  }
  if (topic === "next-version") await scene.toNextVersion();
  const client = await TOPICS[topic](scene, load("database"), folder);
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
