// Applications of frameworks that have what the README shows and no more: built for production,
// run, and driven in Chromium.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";

import * as esbuild from "../bundlers/esbuild.mjs";
import { freePort } from "../bundlers/vite.mjs";
import { built } from "../handlers/builds.mjs";
import { served } from "../handlers/sites.mjs";
import { files } from "../readme/document.mjs";
import { write } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { withWorker } from "../runtimes/workerd.mjs";
import { Checks } from "../checks.mjs";
import { key, newLink } from "./server.mjs";
import { SITES } from "./sites.mjs";

/** The most lines that the README may ask for, in each of its two places. */
const LINES = 5;
const START = "import { links } from";

const ASKS = `const digits = Array.from(secret, (byte) => byte.toString(16).padStart(2, "0"));
  const answer = await ask(digits.join(""));
  return answer.text();`;
const DATABASE = `const ask = (body) => fetch(process.env.DATABASE, { method: "POST", body });

export async function redeem({ secret }) {
  ${ASKS}
}
`;
/** A Worker reaches this machine by a binding alone. */
const DATABASE_OF_WORKER = `import { env } from "cloudflare:workers";

const ask = (body) => env.DATABASE.fetch("http://database/", { method: "POST", body });

export async function redeem({ secret }) {
  ${ASKS}
}
`;

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
    const given = {
      ...site.files,
      "package.json": JSON.stringify({ name: "site", private: true, type: "module" }),
      [join(sources, "links.js")]: site.linksWith?.(links) ?? links,
      [join(sources, "database.js")]: site.worker ? DATABASE_OF_WORKER : DATABASE,
    };
    for (const [name, text] of Object.entries(given)) {
      mkdirSync(join(place, dirname(name)), { recursive: true });
      write(place, name, text);
    }
    const drive = (address) => driven(checks, context, address, used);
    if (site.worker) return onWorkerd(place, site, database, drive);
    const node = programs.NODES.at(-1).path();
    if (site.build) built(place, site.build[0], site.build.slice(1), node);
    const program = site.program?.() ?? node;
    const port = await freePort();
    const env = {
      ...{
        PATH: process.env.PATH,
        NODE_ENV: "production",
        NO_COLOR: "1",
        HOST: "127.0.0.1",
        PORT: String(port),
      },
      ...{
        MAILROOM_SECRET_KEY: key,
        DATABASE: `http://${database}`,
        ORIGIN: `http://127.0.0.1:${port}`,
      },
    };
    const server = spawn(program, site.start, {
      cwd: place,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    return served(server, /Listening|Ready|serve/i, drive);
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
  const press = () => Promise.all([page.waitForEvent("load"), page.click("button")]);
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

/** The application's database: uses a secret once. */
async function withDatabase(use) {
  const used = [];
  const server = createServer(async (request, response) => {
    let secret = "";
    for await (const chunk of request) secret += chunk;
    const verdict = used.includes(secret) ? "used" : "ok";
    if (verdict === "ok") used.push(secret);
    response.end(verdict);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await use(`127.0.0.1:${server.address().port}`, used);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
