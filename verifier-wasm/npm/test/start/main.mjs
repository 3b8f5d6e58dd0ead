// Follows the two pages of docs/start to the click, as a reader does: `node main.mjs TARBALL
// FOLDER`. FOLDER is made anew.
//
// Every setting is the page's, and everything that a page does not set has its default. The only
// things that are others are where the server of PostgreSQL is, and two port numbers. The variables
// PGHOST, PGPORT and PGUSER name that server; `mailroom` and `psql` are found by PATH.

import { cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { withChromium } from "../browser/chromium.mjs";
import { freePort } from "../ports.mjs";
import { install, write } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { until } from "../waiting.mjs";
import { HAS_POSTFIX, Mailbox } from "./mailbox.mjs";
import { stepsOf } from "./page.mjs";
import { Terminal } from "./terminal.mjs";

const PAGES = new URL("../../../../docs/start/", import.meta.url);
const MODULES = fileURLToPath(new URL("../node_modules", import.meta.url));

/** The package pg with all that it depends on. */
const PG = (
  "pg pg-cloudflare pg-connection-string pg-int8 pg-pool pg-protocol pg-types pgpass " +
  "postgres-array postgres-bytea postgres-date postgres-interval split2 xtend"
).split(" ");

const [tarball, place] = process.argv.slice(2);
const report = new Report();
const chromium = programs.chromium();
if (chromium === undefined || !HAS_POSTFIX) {
  report.missing("the pages of the start", "Chromium or postfix is missing, or this is not root");
} else {
  await withChromium(chromium, follow);
}
report.end();

async function follow(browser) {
  rmSync(place, { recursive: true, force: true });
  const folder = join(place, "shop");
  mkdirSync(folder, { recursive: true });
  const ports = { 1025: await freePort(), 8000: await freePort() };
  const here = (text) =>
    text
      .replaceAll("/var/run/postgresql", process.env.PGHOST)
      .replaceAll(/\b(1025|8000)\b/g, (port) => ports[port]);
  const { PATH, HOME, PGPORT, PGUSER } = process.env;
  const environment = { PATH, HOME, PGPORT, PGUSER };
  const mailbox = await Mailbox.open(join(place, "postfix"), ports[1025]);
  const first = new Terminal(folder, environment);
  const others = [];
  const read = (name) =>
    stepsOf(fileURLToPath(new URL(name, PAGES))).map((step) => ({
      ...step,
      text: here(step.text),
    }));

  /** Does what a page says, but for its last block, which looks at what the click has done. */
  async function prepare(steps) {
    for (const { file, text, runsOn } of steps) {
      if (file !== undefined) write(folder, file, text);
      else if (runsOn) {
        const terminal = new Terminal(folder, environment);
        others.push(terminal);
        terminal.start(text);
        if (text.includes("node server.js")) {
          await until("the server", () => terminal.hasEnded || listens());
        }
      } else {
        await first.run(text);
        if (text.includes("npm pkg set")) addPackages(folder);
      }
    }
  }
  const listens = () =>
    fetch(`http://localhost:${ports[8000]}/nothing`).then(
      () => true,
      () => false,
    );
  const complain = (error) => {
    const said = [first, ...others].map(({ printed }) => printed).join("\n");
    throw new Error(`${error.message}\n${said}`, { cause: error });
  };

  const run = (title, does) => report.run(title, () => does().catch(complain));

  await run("start/first-mail, to the click", async () => {
    const steps = read("first-mail.md");
    await prepare(steps.slice(0, -1));
    const mail = await mailbox.mail(/\/activate\?token=/);
    const page = await browser.newPage();
    await page.goto(linkOf(mail, "activate"));
    await page.getByRole("button").click();
    await page.getByRole("button").waitFor({ state: "detached" });
    const seen = await first.run(steps.at(-1).text);
    await page.goto(linkOf(mail, "activate"));
    await page.getByRole("button").click();
    await page.getByRole("button").waitFor({ state: "detached" });
    await page.waitForLoadState();
    const again = await page.textContent("body");
    await page.close();
    return [
      check("the user is verified", /ada@example\.test \| 20\d\d-/, seen),
      check("the trace says that the link was used", /\bused\b/, seen),
      check("a second click uses nothing", /used/i, again),
    ];
  });

  await run("start/reset-password, to the notice", async () => {
    await others.pop().stop();
    const steps = read("reset-password.md");
    await prepare(steps.slice(0, -1));
    const page = await browser.newPage();
    await page.goto(`http://localhost:${ports[8000]}/forgot`);
    await page.getByLabel("Your address").fill("ada@example.test");
    await page.getByRole("button").click();
    const mail = await mailbox.mail(/\/recover\?token=/);
    await page.goto(linkOf(mail, "recover"));
    await page.locator("[name=code]").fill(/Your code is (\d{5})/.exec(mail)[1]);
    // More than the browser itself would refuse.
    await page.locator("form").evaluate((form) => {
      form.noValidate = true;
    });
    await page.getByLabel("New password").fill("short");
    await page.getByRole("button").click();
    await page.getByText("15 to 256 characters").waitFor();
    await page.locator("[name=code]").fill(/Your code is (\d{5})/.exec(mail)[1]);
    await page.getByLabel("New password").fill("correct horse battery");
    await page.getByRole("button").click();
    await page.getByLabel("New password").waitFor({ state: "detached" });
    await mailbox.mail(/account was recovered/);
    const seen = await first.run(steps.at(-1).text);
    return [check("the user has a password", /ada@example\.test \| t/, seen)];
  });

  for (const terminal of [first, ...others]) await terminal.stop();
  await mailbox.close();
}

/** What `npm install pg "$PACKAGE"` of the page puts there, with the pg that the tests lock. */
function addPackages(folder) {
  const installed = join(place, "installed");
  install(installed, tarball);
  cpSync(join(installed, "node_modules"), join(folder, "node_modules"), { recursive: true });
  for (const name of PG) {
    cpSync(join(MODULES, name), join(folder, "node_modules", name), { recursive: true });
  }
}

function linkOf(mail, action) {
  return new RegExp(`http://localhost:\\d+/${action}\\?token=[\\w-]+`).exec(mail)[0];
}

function check(name, pattern, text) {
  return { name, error: pattern.test(text) ? undefined : `${pattern} is not in\n${text}` };
}
