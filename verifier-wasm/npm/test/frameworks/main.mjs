// Applications of real frameworks that use the package, built for production and run:
// `node main.mjs TARBALL FOLDER`. FOLDER is made anew. The frameworks are those of handlers/,
// and some of them need a newer Node than this one may be.

import { spawn } from "node:child_process";
import { cpSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { following, withChromium } from "../browser/chromium.mjs";
import { freePort } from "../ports.mjs";
import { built } from "../handlers/builds.mjs";
import { addFrameworks, served } from "../handlers/sites.mjs";
import { install } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { withWorker } from "../runtimes/workerd.mjs";
import { Checks } from "../checks.mjs";
import { nextFiles } from "./next_files.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const VERIFIED = '{"shared":true,"public":true,"redeemed":[true,false]}';

const [tarball, folder] = process.argv.slice(2);
const node = programs.NODES.at(-1).path();
const { SHARED_KEY, PUBLIC_KEY, shared, asymmetric } = vectors();
const query = new URLSearchParams({ shared: shared[0], public: asymmetric });

const installed = install(folder, tarball);
addFrameworks(folder);
for (const name of ["nuxt", "next", "astro", "sveltekit"]) {
  cpSync(join(HERE, name), join(folder, name), { recursive: true });
  for (const common of ["verify.js", "activation.js"])
    cpSync(join(HERE, common), join(folder, name, common));
}
const reference = readFileSync(join(installed, "REFERENCE.md"), "utf8");
const [, recommended] = /`Referrer-Policy: ([a-z-]+)`/.exec(reference) ?? [];

const report = new Report();
const browser = programs.chromium();
if (node === undefined || programs.workerd() === undefined || browser === undefined) {
  report.missing(
    "applications of frameworks",
    "Node of package.json, workerd or Chromium is not installed",
  );
} else {
  await report.run("Nuxt for Cloudflare, in workerd", onCloudflare);
  await report.run("Next.js, in its edge runtime", onNext);
  const program = "next/dist/bin/next";
  const given = { program, node, run, key: SHARED_KEY, token: shared[0] };
  await report.run("Next.js, the files of the REFERENCE", () =>
    nextFiles(folder, reference, given),
  );
  await withChromium(browser, async (context) => {
    await report.run("Astro, a form in Chromium", () => onAstro(context));
    await report.run("SvelteKit, a form in Chromium", () => onSvelteKit(context));
  });
}
report.end();

/** `nuxt build`, and its output as a Worker that may not compile bytes. */
async function onCloudflare() {
  const site = join(folder, "nuxt");
  built(site, "nuxt/bin/nuxt.mjs", ["build"], node);
  const worker = {
    program: programs.workerd(),
    folder: join(site, ".output/server"),
    main: "index.mjs",
  };
  const settings = {
    date: "2025-05-31",
    flags: ["nodejs_compat"],
    bindings: { texts: { SHARED_KEY, PUBLIC_KEY } },
  };
  return withWorker({ ...worker, ...settings }, async (url) => {
    const checks = new Checks();
    checks.same("it verifies and redeems", await answered(`${url}/verify?${query}`), VERIFIED);
    return checks.results;
  });
}

/** `next build` without keys, then `next start`. */
async function onNext() {
  const checks = new Checks();
  const site = join(folder, "next");
  const program = built(site, "next/dist/bin/next", ["build"], node);
  const server = run(
    site,
    ["--require=./no_compiling.cjs", program, "start", "--hostname", "127.0.0.1", "--port", "0"],
    {
      SHARED_KEY,
      PUBLIC_KEY,
    },
  );
  await served(server, /Ready/, async (url) => {
    checks.same(
      "its edge runtime verifies and redeems",
      await answered(`${url}/edge?${query}`),
      VERIFIED,
    );
    checks.same(
      "keys are read at first use",
      await answered(`${url}/module-level?${query}`),
      "true",
    );
  });
  const modules = readdirSync(join(site, ".next/server/edge"), { recursive: true }).filter((name) =>
    name.endsWith(".wasm"),
  );
  checks.same("the modules are files", modules.length, 2);
  return checks.results;
}

async function onAstro(context) {
  const site = join(folder, "astro");
  built(site, "astro/bin/astro.mjs", ["build"], node);
  const start = (policy) => run(site, ["dist/server/entry.mjs"], forForms(policy, 0));
  return inBrowser(context, start, shared.slice(0, 2));
}

async function onSvelteKit(context) {
  const site = join(folder, "sveltekit");
  built(site, "vite/bin/vite.js", ["build"], node);
  const start = async (policy) => run(site, ["build/index.js"], forForms(policy, await freePort()));
  return inBrowser(context, start, shared.slice(0, 2));
}

/**
 * The button goes through under the policy that the README recommends, and does not under the one
 * that hides the origin.
 */
async function inBrowser(context, start, tokens) {
  const checks = new Checks();
  for (const [policy, token, expected] of [
    [recommended, tokens[0], /^\s*Your account is active\./],
    ["no-referrer", tokens[1], /cross-site/i],
  ]) {
    await served(await start(policy), /listening/i, async (url) => {
      const page = await context.newPage();
      await page.goto(`${url}/activate?token=${token}`);
      await following(page, () => page.click("button"));
      checks.same(`the form under ${policy}`, await page.textContent("body"), expected);
      await page.close();
    });
  }
  return checks.results;
}

/** The adapter of SvelteKit has to be told its origin. */
function forForms(policy, port) {
  const at = { HOST: "127.0.0.1", PORT: String(port), ORIGIN: `http://127.0.0.1:${port}` };
  return { SHARED_KEY, REFERRER_POLICY: policy, ...at };
}

function run(site, given, environment) {
  const env = { PATH: process.env.PATH, NODE_ENV: "production", NO_COLOR: "1", ...environment };
  return spawn(node, given, { cwd: site, env, stdio: ["ignore", "pipe", "pipe"] });
}

async function answered(url) {
  const response = await fetch(url);
  return response.text();
}

/**
 * Activations that are valid for long, with their keys: two that a shared key has signed, and one
 * of a private key.
 */
function vectors() {
  const lasting = (version) => {
    const file = join(HERE, `../../../../tests/vectors/${version}.json`);
    const { groups } = JSON.parse(readFileSync(file, "utf8"));
    const [group] = groups.filter(({ action }) => action === "activate");
    const valid = group.tests.filter(
      ({ result, expires_at }) => result === "valid" && expires_at > Date.now() / 1000 + 31_536_000,
    );
    // By the secret, which is what is used.
    return {
      ...group,
      tokens: [...new Map(valid.map(({ secret, token }) => [secret, token])).values()],
    };
  };
  const [v2, v3] = [lasting("v2"), lasting("v3")];
  const PUBLIC_KEY = `mrpk_${Buffer.from(v3.public_key, "hex").toString("base64url")}`;
  return { SHARED_KEY: v2.key, PUBLIC_KEY, shared: v2.tokens, asymmetric: v3.tokens[0] };
}
