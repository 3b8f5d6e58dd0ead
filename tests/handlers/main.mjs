// The handlers that web-demo/README.md shows, built by the real frameworks and run: `node main.mjs TARBALL FOLDER`. FOLDER is
// made anew; the packed package is installed into it, and every block of the document pasted.

import { spawnSync } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { withChromium } from "../browser/chromium.mjs";
import { files } from "../readme/document.mjs";
import { install } from "../runtimes/consumer.mjs";
import { chromium, deno, NODES } from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { Checks } from "../web/checks.mjs";
import { RecordingOrigin } from "../web/origin.mjs";
import { addFrameworks, onDeno, onHono, onNext, onSvelteKit } from "./sites.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const FORM = "application/x-www-form-urlencoded";
/** As a browser says it of a page of the same site. */
const SAME_SITE = { Origin: "http://127.0.0.1" };

const [tarball, folder] = process.argv.slice(2);
const document = readFileSync(join(HERE, "../../web-demo/README.md"), "utf8");
const shown = files(document);
const { key, tokens } = someTokens();

install(folder, tarball);
addFrameworks(folder);

const origin = await RecordingOrigin.start();
process.env.MAILROOM_SECRET_KEY = key;
process.env.ORIGIN = `http://${origin.address}`;
process.env.ORIGIN_PASSWORD = origin.password;

const report = new Report();
await report.run("wrangler.jsonc", () => [bound()]);
await report.run("wrangler deploy --dry-run", async () => [await deployable()]);
await report.run("handler of Hono", () => onHono(folder, shown, (answer) => judged(answer)));
await report.run("handler of Next.js", () =>
  // It says 405 by itself, and no more.
  onNext(folder, shown, (answer) => judged(answer, "405 null")),
);
await report.run("handler of SvelteKit", () =>
  onSvelteKit(folder, shown, async (answer, address, asked) => [
    ...(await judged(answer)),
    ...(await inBrowser(address, asked)),
  ]),
);
if (deno() === undefined) {
  report.missing("handler of Deno", "npm has no deno for this machine; run `npm ci` in tests/");
} else {
  await report.run("handler of Deno", () => onDeno(folder, shown, (answer) => judged(answer)));
}
report.end();
origin.end();

/** Whatever the Worker is bound to is in the configuration or among the secrets of the document; the stage is not. */
function bound() {
  const edge = join(HERE, "../../web-demo/edge");
  const environment = readFileSync(join(edge, "environment.ts"), "utf8");
  const wanted = [...environment.matchAll(/^ {2}readonly (\w+): /gm)].map(([, name]) => name).toSorted();
  const text = readFileSync(join(edge, "wrangler.jsonc"), "utf8").replace(/^\s*\/\/.*$/gm, "");
  const { assets, durable_objects, vars, vpc_services } = JSON.parse(text);
  const secrets = [...document.matchAll(/wrangler secret put (\w+)/g)].map(([, name]) => name);
  const objects = durable_objects.bindings.map(({ name }) => name);
  const services = vpc_services.map(({ binding }) => binding);
  const given = [assets.binding, ...Object.keys(vars), ...objects, ...services, ...secrets].toSorted();
  const name = "it binds what the Worker needs";
  return { name, error: given.join() === wanted.join() ? undefined : `${given} instead of ${wanted}` };
}

/**
 * Cloudflare's own tool reads the configuration, bundles the Worker and finds what it is bound to. Of its companions for
 * this machine, the bundler and workerd, those of the other tests do; it needs a newer Node than this one may be.
 */
async function deployable() {
  const name = "Cloudflare's tool takes the edge function";
  const tests = join(HERE, "../node_modules");
  const newest = NODES.at(-1).path();
  const machine = `workerd-${process.platform}-${process.arch === "x64" ? "64" : process.arch}`;
  const companion = join(HERE, "node_modules/@cloudflare", machine);
  if (!existsSync(companion)) symlinkSync(join(tests, "@cloudflare", machine), companion);
  const home = join(folder, "home");
  const { status, stdout, stderr } = spawnSync(
    newest,
    [
      join(HERE, "node_modules/wrangler/bin/wrangler.js"),
      ...["deploy", "--dry-run", "--config", "edge/wrangler.jsonc", "--outdir", join(folder, "deployed")],
    ],
    {
      cwd: join(HERE, "../../web-demo"),
      encoding: "utf8",
      env: {
        ...{ PATH: process.env.PATH, HOME: home, CI: "true", WRANGLER_SEND_METRICS: "false", NO_COLOR: "1" },
        ESBUILD_BINARY_PATH: join(tests, "@esbuild", `${process.platform}-${process.arch}`, "bin/esbuild"),
      },
    },
  );
  const bound = ["USED_TOKENS (UsedToken)", "env.ORIGIN ", "env.ASSETS"];
  const missing = bound.filter((binding) => !stdout?.includes(binding));
  const built = readdirSync(join(folder, "deployed")).filter((file) => file.endsWith(".wasm")).length === 2;
  const well = status === 0 && missing.length === 0 && built;
  return { name, error: well ? undefined : `status ${status}, missing ${missing}: ${stdout}${stderr}` };
}

/** What a person, a scanner and an origin can do; each handler begins with a store of its own. */
async function judged(answer, otherMethods = "405 GET, HEAD, POST") {
  const checks = new Checks();
  const before = origin.requests.length;
  const asked = () => origin.requests.length - before;
  const forged = `${tokens[0].slice(0, 60)}${tokens[0].at(60) === "A" ? "B" : "A"}${tokens[0].slice(61)}`;
  const open = async (token, method = "GET") =>
    read(await answer(new Request(`http://127.0.0.1/activate?${new URLSearchParams({ token })}`, { method })));
  const press = async (token, type = FORM) => read(await answer(form(token, type)));
  const [used, elsewhere, suspended] = tokens;

  origin.now("ok");
  const opened = await open(used);
  checks.same("a genuine link is shown", opened.status, 200);
  checks.same(
    "with a button and the token in a form",
    opened.text,
    new RegExp(`name="token" value="${used}".*<button>`),
  );
  const [, nonce] = /script-src 'nonce-([^']+)'/.exec(opened.headers.get("Content-Security-Policy")) ?? [];
  checks.same("its script is the one that the policy allows", opened.text.includes(`<script nonce="${nonce}">`), true);
  checks.same("another page has another one", (await open(used)).text.includes(nonce), false);
  checks.same("a scanner that only looks at it uses nothing", (await open(used, "HEAD")).status, 200);
  checks.same("a forged link is not shown", (await open(forged)).status, 403);
  checks.same("nor is no link", (await open("")).status, 403);
  checks.same("nor what is none", (await open('"><script>')).text.includes("><script>"), false);
  const put = await answer(new Request("http://127.0.0.1/activate", { method: "PUT", headers: SAME_SITE, body: "" }));
  checks.same("another method is refused", `${put.status} ${put.headers.get("Allow")}`, otherMethods);
  for (const type of ["application/json", "text/plain", "multipart/form-data; boundary=x"]) {
    checks.same(`${type} is refused`, (await press(used, type)).status, 415);
  }
  checks.same("a megabyte is refused", (await press("a".repeat(1_000_000))).status, 413);
  checks.same("a forged link is refused", (await press(forged)).status, 403);
  checks.same("what is no link is refused", (await press("x")).status, 403);
  checks.same("the origin was not asked", asked(), 0);

  for (const [name, text] of [
    ["away", /Nothing was done/],
    ["silent", /not known whether this worked/],
    ["failing", /not known whether this worked/],
    ["nonsense", /not known whether this worked/],
  ]) {
    origin.now(name);
    const page = await press(used);
    checks.same(`an origin that is ${name} is told`, page.status, 503);
    checks.same(`with what is known, ${name}`, page.text, text);
  }
  origin.now("not_eligible");
  checks.same("an account that cannot use it is told", (await press(suspended)).text, /cannot be activated now/);
  origin.now("used");
  const questions = asked();
  checks.same("a link that was used elsewhere is told", (await press(elsewhere)).status, 409);
  checks.same("and stays used", (await press(elsewhere)).status, 409);
  checks.same("without another question", asked() - questions, 1);
  origin.now("ok");
  const calls = asked();
  const activated = await press(used);
  checks.same("after the outage the link works", activated.status, 200);
  checks.same("and says so", activated.text, /Your account is active/);
  checks.same("the same link is refused", (await press(used)).text, /already used/);
  checks.same("and the origin was asked once for both", asked() - calls, 1);
  checks.same("the link of whoever could not use it works", (await press(suspended)).status, 200);
  const former = v1Activation();
  checks.same("a v1 link is shown", (await open(former)).status, 200);
  checks.same("and works", (await press(former)).text, /Your account is active/);
  checks.same("once", (await press(former)).text, /already used/);
  for (const { headers } of [opened, activated]) {
    checks.same("an answer is kept nowhere", headers.get("Cache-Control"), "no-store");
    checks.same("and tells no other site", headers.get("Referrer-Policy"), "strict-origin");
    checks.same(
      "nothing but its script runs",
      headers.get("Content-Security-Policy"),
      /^default-src 'none'; script-src 'nonce-/,
    );
    checks.same("it is a page", headers.get("Content-Type"), "text/html; charset=utf-8");
  }
  checks.none("the origin was asked as it wants to be", origin.complaints);
  return checks.results;
}

async function read(response) {
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** Frameworks judge a form by the origin that a browser names, which a page's policy can take away. */
async function inBrowser(address, asked) {
  const checks = new Checks();
  const browser = chromium();
  if (browser === undefined) return [{ name: "in Chromium", error: "neither chromium nor google-chrome is in PATH" }];
  const token = v1Activation();
  origin.now("ok");
  asked.length = 0;
  await withChromium(browser, async (context) => {
    const page = await context.newPage();
    await page.goto(`${address}/activate?token=${token}`);
    checks.same("the page takes the token out of the address", page.url(), `${address}/activate`);
    await Promise.all([page.waitForEvent("load"), page.click("button")]);
    checks.same("the button activates in Chromium", await page.textContent("body"), /^\s*Your account is active\./);
  });
  const [posted] = asked.filter(({ method }) => method === "POST");
  checks.same("Chromium says where the form is from", posted?.headers.origin, address);
  const referrers = asked.map(({ headers }) => headers.referer ?? "");
  checks.none(
    "and no referrer says more",
    referrers.filter((referrer) => !["", `${address}/`].includes(referrer)),
  );
  return checks.results;
}

function form(token, type) {
  const body = new URLSearchParams({ token }).toString();
  const headers = { "Content-Type": type, "Content-Length": String(body.length), ...SAME_SITE };
  return new Request("http://127.0.0.1/activate", { method: "POST", headers, body });
}

/** A v1 activation by the same key, which carries no expiry. */
function v1Activation() {
  const secret = randomBytes(32);
  const tag = createHmac("sha256", Buffer.from(key, "hex")).update("/activate").update(secret).digest();
  return Buffer.concat([secret, tag]).toString("base64url");
}

/** Three v2 activations of the vectors that are valid for long, and their key. */
function someTokens() {
  const { groups } = JSON.parse(readFileSync(join(HERE, "../vectors/v2.json"), "utf8"));
  const inAYear = BigInt(Math.floor(Date.now() / 1000) + 31_536_000);
  for (const group of groups.filter(({ action }) => action === "activate")) {
    const valid = group.tests
      .filter(({ result }) => result === "valid")
      .map(({ token }) => Buffer.from(token, "base64url"));
    const lasting = valid.filter((bytes) => bytes.readBigUInt64BE(6) > inAYear);
    // By the secret, which is what is used.
    const bySecret = new Map(lasting.map((bytes) => [bytes.toString("hex", 14, 46), bytes.toString("base64url")]));
    if (bySecret.size >= 3) return { key: group.key, tokens: [...bySecret.values()] };
  }
  throw new Error("no vectors are valid now");
}
