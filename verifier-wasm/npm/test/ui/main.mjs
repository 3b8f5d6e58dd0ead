// `mailroom ui` in Chromium: `node main.mjs FOLDER`, where pictures of the pages are left.
//
// MAILROOM_TEST_PROGRAM is the program, MAILROOM_DATABASE_URL an empty database.

import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";

import pg from "pg";

import { withBrowsers } from "../browser/chromium.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { looks } from "./looks.mjs";
import { Screen } from "./screen.mjs";

const [folder] = process.argv.slice(2);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const report = new Report();
const browser = programs.chromium();
if (browser === undefined) {
  report.missing("mailroom ui", "neither chromium nor google-chrome is in PATH; install one");
} else {
  execFileSync(process.env.MAILROOM_TEST_PROGRAM, ["migrate", "up", "--without-accounts"]);
  const client = new pg.Client({ connectionString: process.env.MAILROOM_DATABASE_URL });
  await client.connect();
  const screen = await Screen.start();
  await withBrowsers(browser, (chromium) =>
    report.run("the pages", () => looks(chromium, { client, screen, pictures: folder })),
  );
  await screen.end();
  await client.end();
}
report.end();
