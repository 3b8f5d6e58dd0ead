// Applications of frameworks that have what the README shows and no more: built for production,
// run, and driven in Chromium.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { following } from "../browser/chromium.mjs";
import * as esbuild from "../bundlers/esbuild.mjs";
import { files } from "../readme/document.mjs";
import * as programs from "../runtimes/programs.mjs";
import { withWorker } from "../runtimes/workerd.mjs";
import { Checks } from "../checks.mjs";
import {
  DATABASE,
  DATABASE_OF_WORKER,
  runApplication,
  withDatabase,
  writeApplication,
} from "./applications.mjs";
import { key, newLink } from "./server.mjs";
import { SITES } from "./sites.mjs";

/** The most lines that the README may ask for, in each of its two places. */
const LINES = 5;
const START = "import { links } from";

/** The rows of the README's table: the first words, and the code as it stands there. */
function rows(document) {
  const [, table] = /^\| where \| what is there beside .*\n\|.*\n((?:\|.*\n)+)/m.exec(document);
  return table
    .trim()
    .split("\n")
    .map((row) => {
      const [, where, cell] = /^\| ([\w .]+).*? \| (.*) \|$/.exec(row);
      return {
        where: where.trim(),
        code: [...cell.matchAll(/`([^`]+)`/g)].map(([, line]) => line),
      };
    });
}

/** How long what the README asks for is. */
export function lines(document) {
  const checks = new Checks();
  const table = rows(document);
  checks.same(
    "every framework of the tests is in the README",
    table
      .map(({ where }) => where)
      .toSorted()
      .join(),
    Object.keys(SITES).toSorted().join(),
  );
  const { "links.js": links } = files(document);
  const written = links.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("//"));
  checks.same("links.js has at most five lines", written.length <= LINES, true);
  for (const { where, code } of table) {
    const all = [...code, START];
    if (code.join().includes("toNodeListener")) all.push("import { toNodeListener } from");
    checks.same(`${where} takes at most five lines`, all.length <= LINES, true);
    checks.none(
      `none of ${where} is longer than a line`,
      code.filter((line) => line.length > 120),
    );
  }
  return checks.results;
}

/** Every site, one after the other. */
export function* sites(document, folder, context) {
  const { "links.js": links } = files(document);
  for (const { where, code } of rows(document)) {
    yield [
      where,
      () => onSite({ ...SITES[where](code.join("\n")), where, links, folder, context }),
    ];
  }
}

async function onSite({ where, links, folder, context, ...site }) {
  const checks = new Checks();
  await withDatabase(async (database, used) => {
    const place = join(folder, `on-${where.toLowerCase().replaceAll(/\W+/g, "-")}`);
    const sources = site.sources ?? ".";
    writeApplication(place, {
      ...site.files,
      [join(sources, "links.js")]: site.linksWith?.(links) ?? links,
      [join(sources, "database.js")]: site.worker ? DATABASE_OF_WORKER : DATABASE,
    });
    const drive = (address) => driven(checks, context, address, used);
    if (site.worker) return onWorkerd(place, site, database, drive);
    return runApplication(place, site, database, drive);
  });
  return checks.results;
}

async function onWorkerd(folder, { worker: entry, flags = ["nodejs_compat"] }, database, drive) {
  const output = join(folder, "dist");
  mkdirSync(output, { recursive: true });
  await esbuild.bundleWorker({ source: folder, entry, output });
  const bindings = { texts: { MAILROOM_SECRET_KEY: key }, servers: { DATABASE: database } };
  const worker = { program: programs.workerd(), folder: output, main: "main.mjs", bindings };
  return withWorker({ ...worker, date: "2025-09-01", flags }, drive);
}

/** From a scanner to the person, and what others send. */
async function driven(checks, context, address, used) {
  const { token, secret } = newLink("activate");
  const url = `${address}/activate`;
  const type = { "Content-Type": "application/x-www-form-urlencoded" };
  const post = (headers, body = `token=${token}`) => fetch(url, { method: "POST", headers, body });
  for (const method of ["GET", "GET", "HEAD"]) await fetch(`${url}?token=${token}`, { method });
  checks.same(
    "a form of another site is refused",
    (await post({ ...type, Origin: "https://evil.example" })).status,
    403,
  );
  const json = await post(
    { "Content-Type": "application/json", Origin: address },
    JSON.stringify({ token }),
  );
  checks.same("another type is refused", json.status, 415);
  const large = (await post({ ...type, Origin: address }, `token=${"a".repeat(100_000)}`)).status;
  checks.same("a large body is refused", large, 413);
  checks.same("nothing was used", used.length, 0);
  const page = await context.newPage();
  const press = () => following(page, () => page.click("button"));
  await page.goto(`${url}?token=${token}`);
  checks.same("the token has left the address", page.url(), url);
  const [policy, referrer] = await page.evaluate(async () => {
    const { headers } = await fetch(location.href).catch(() => ({ headers: new Headers() }));
    return [headers.get("Content-Security-Policy"), document.referrer];
  });
  checks.same("the page may fetch nothing", `${policy} ${referrer}`, "null ");
  await press();
  checks.same("the button activates", await page.textContent("h1"), "Your account is active");
  checks.same("the link of the mail", used.join(), secret);
  await page.goto(`${url}?token=${token}`);
  await press();
  checks.same("once", await page.textContent("h1"), "This link was already used");
  checks.same("and the database was asked once", used.length, 1);
  await page.close();
}
