// `mailroom ui` in Chromium: `node main.mjs FOLDER`, where pictures of the pages are left.
//
// MAILROOM_TEST_PROGRAM is the program, MAILROOM_DATABASE_URL an empty database.

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";

import pg from "pg";

import { withBrowsers } from "../browser/chromium.mjs";
import { mailroom, started } from "../mailroom.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { looks } from "./looks.mjs";

const [folder] = process.argv.slice(2);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const report = new Report();
const browser = programs.chromium();
if (browser === undefined) {
  report.missing("mailroom ui", "neither chromium nor google-chrome is in PATH; install one");
} else {
  execFileSync(mailroom(), ["migrate", "up", "--without-accounts"]);
  const client = new pg.Client({ connectionString: process.env.MAILROOM_DATABASE_URL });
  await client.connect();
  const { line: link, end } = await started(["ui", "--port", "0"], "http://");
  await withBrowsers(browser, (chromium) =>
    report.run("the pages", () => looks(chromium, { client, link, collectOnce, pictures: folder })),
  );
  await end();
  await client.end();
}
report.end();

/** A run of a collector, whose lines nobody sends. */
function collectOnce() {
  const env = { ...process.env, MAILROOM_SECRET_KEY: randomBytes(32).toString("hex") };
  const stdio = ["ignore", "pipe", "inherit"];
  execFileSync(mailroom(), ["collect", "--once"], { env, stdio });
}
