// The web demonstration in a real browser: `node main.mjs FOLDER [WORDS] [--order=ORDER]`. FOLDER
// gets the pictures; WORDS choose groups by their titles, such as `expires|outage`; ORDER is
// `reverse`, or a number that a random order follows from.
//
// No group needs another one, or the state in which another one leaves
// the demonstration: see `Setting`.

import { join } from "node:path";

import { withChromium } from "../../verifier-wasm/npm/test/browser/chromium.mjs";
import { chromium, version, workerd } from "../../verifier-wasm/npm/test/runtimes/programs.mjs";
import { Report } from "../../verifier-wasm/npm/test/runtimes/report.mjs";
import { Demo } from "./demo.mjs";
import { end } from "./ending.mjs";
import { ALONE, GROUPS } from "./groups.mjs";
import { ordered } from "./order.mjs";
import { previews } from "./previews.mjs";
import { Setting } from "./setting.mjs";
import { Visitor } from "./visitor.mjs";

const options = process.argv.slice(2).filter((argument) => argument.startsWith("--"));
const [folder, words = ""] = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const [order] = options.map(
  (option) => /^--order=(.+)$/.exec(option)?.[1] ?? fail(`there is no option ${option}`),
);
const site = process.env.MAILROOM_DEMO_SITE;
const program = join(site, "node/stage.js");
const report = new Report();
const alone = { folder, site, program, mailroom: process.env.MAILROOM_TEST_PROGRAM };
const chosen = (groups) =>
  ordered(
    groups.filter(({ title }) => new RegExp(words).test(title)),
    order,
  );

const browser = chromium();
const groups = chosen(GROUPS);
// Beside each other, as neither needs the other. Before the demonstration, whose database is found
// as the newest of the server.
await Promise.all([withoutDemonstration(), withPreviews()]);
if (browser !== undefined && groups.length > 0) await withDemonstration();
report.end();

async function withoutDemonstration() {
  for (const { title, needsWorkerd, work } of chosen(ALONE)) {
    if (needsWorkerd && workerd() === undefined)
      report.missing(title, "npm has no workerd for this machine");
    else await report.run(title, () => work(alone));
  }
}

async function withPreviews() {
  if (browser === undefined) {
    report.missing(
      "the web demonstration",
      "neither chromium nor google-chrome is in PATH; install one of them",
    );
    return;
  }
  for (const { title } of chosen([{ title: "the preview of the mails" }])) {
    await withChromium(browser, (context) => report.run(title, () => previews(context, alone)));
  }
}

async function withDemonstration() {
  const demo = await Demo.start(program);
  console.log(`${demo.address}, in Chromium ${version(browser)}`);
  await withChromium(browser, async (context) => {
    const visitor = new Visitor(context, demo);
    // What a group that failed has left behind fails no other one.
    process.on("unhandledRejection", (error) =>
      visitor.complaints.push(`nobody waited for: ${error?.stack ?? error}`),
    );
    const setting = new Setting({ visitor, demo, pictures: join(folder, "pictures") });
    for (const group of groups) await setting.prepare(group);
    for (const group of groups) await report.run(group.title, () => setting.run(group));
  });
  await report.run("Ctrl-C", () => end(demo));
}

function fail(reason) {
  console.error(`error: ${reason}`);
  process.exit(2);
}
