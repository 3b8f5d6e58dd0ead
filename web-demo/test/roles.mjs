// The roles of the demonstration: a password for each, and none is left behind.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";

import pg from "pg";

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";

/** A demonstration that cannot start a part removes what it has made on a server that stays. */
export async function failsToStart(program) {
  const checks = new Checks();
  const before = await left();
  const env = { ...process.env, MAILROOM_DEMO_WORKERD: "/nowhere/workerd" };
  const child = spawn(process.execPath, [program], { env, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk) => (said += chunk));
  const [status] = await once(child, "close");
  checks.same("it says what is missing", said, /edge ended.*\/nowhere\/workerd/s);
  checks.same("and fails", status, 1);
  checks.same("no role and no database is left", (await left()).join(), before.join());
  return checks.results;
}

/** Nobody who knows one part's password can be the other part. */
export function passwords({ demo }) {
  const checks = new Checks();
  const passwordOf = (pattern) => {
    const variables = readFileSync(`/proc/${demo.processOf(pattern)}/environ`, "utf8").split("\0");
    return variables.find((variable) => variable.startsWith("PGPASSWORD="));
  };
  const [application, collector, server] = [
    passwordOf(/^\S+node \S+origin\.js/),
    passwordOf(/mailroom collect /),
    passwordOf(/mailroom serve /),
  ];
  checks.same("the application has a password", application, /^PGPASSWORD=[0-9a-f]{64}$/);
  for (const [name, own, others] of [
    ["collector", collector, [application, server]],
    ["server", server, [application, collector]],
  ]) {
    const isOwn = !others.includes(own) && /=[0-9a-f]{64}$/.test(own);
    checks.same(`the ${name} has another one`, isOwn, true);
  }
  return checks.results;
}

async function left() {
  const client = new pg.Client(process.env.MAILROOM_TEST_DATABASE_URL);
  await client.connect();
  const names =
    "SELECT rolname::text AS name FROM pg_roles UNION ALL SELECT datname::text FROM " +
    "pg_database ORDER BY name";
  const { rows } = await client.query(names);
  await client.end();
  return rows.map(({ name }) => name);
}
