// The suite in Chromium, without a bundler: `node main.mjs TARBALL FOLDER`. FOLDER is made anew.

import { readFileSync } from "node:fs";
import { join, posix } from "node:path";

import { DEFINING, PACKAGE, addSuite, addSurface, install, write } from "../runtimes/consumer.mjs";
import { resolveExport } from "../runtimes/exports.mjs";
import { chromium, version } from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { FULL, loadingQuery, RANDOM_TOKENS } from "../runtimes/scope.mjs";
import { resultsOf, withChromium } from "./chromium.mjs";
import { STRICT_POLICY, withServer } from "./server.mjs";

const ENTRIES = new URL("../runtimes/entry/", import.meta.url);
const CONDITIONS = ["browser", "module", "import"];

// Each worker sends what it found. A service worker runs only what it imports at the start.
const WORKERS = `
const found = (title, worker) => new Promise((resolve, reject) => {
  const { port1, port2 } = new MessageChannel();
  worker.onerror = ({ message }) => reject(new Error(title + ": " + message));
  const titled = ({ name, error }) => ({ name: title + ", " + name, error });
  port1.onmessage = ({ data }) => resolve(data.map(titled));
  worker.postMessage("start", [port2]);
});
const registration = await navigator.serviceWorker.register("/worker.mjs", { type: "module" });
const service = registration.active ?? registration.waiting ?? registration.installing;
globalThis.results = [
  ...(await found("a dedicated worker", new Worker("/worker.mjs", { type: "module" }))),
  ...(await found("a service worker", service)),
];
await registration.unregister();
`;

const [tarball, folder] = process.argv.slice(2);
const report = new Report();
const program = chromium();
if (program === undefined) {
  report.missing("Chromium", "neither chromium nor google-chrome is in PATH; install one of them");
} else {
  const site = join(folder, "site");
  const installed = install(site, tarball);
  addSuite(site);
  const entries = await addSurface(site, installed);
  await withChromium(program, (browser) => everyPage(browser, site, installed, entries));
}
report.end();

async function everyPage(browser, site, installed, entries) {
  const title = `Chromium ${version(program)}`;
  const paths = Object.fromEntries(
    [...entries, "./verifier.wasm", "./public.wasm"].map((subpath) => [
      posix.join(PACKAGE, subpath),
      `/${posix.join("node_modules", PACKAGE, resolveExport(installed, subpath, CONDITIONS))}`,
    ]),
  );
  // Not every page has an import map.
  write(site, DEFINING, at(paths, readFileSync(join(site, DEFINING), "utf8")));
  const open = (name, policy) =>
    withServer(site, { policy }, (url) => resultsOf(browser, `${url}/${name}`));
  const loading = `?${new URLSearchParams(loadingQuery)}`;

  const map = `<script type="importmap">${JSON.stringify({ imports: paths })}</script>`;
  write(site, "mapped.html", page("mapped.mjs", map));
  write(site, "mapped.mjs", entry("page.mjs"));
  await report.run(`${title}, module script with an import map`, () =>
    open(`mapped.html${loading}`),
  );

  write(site, "web.html", page("web.mjs", map));
  write(site, "web.mjs", entry("page-web.mjs"));
  await report.run(`${title}, the platform's cryptography`, () =>
    open(`web.html?count=${RANDOM_TOKENS}`),
  );

  write(site, "slim.html", page("slim.mjs", map));
  write(
    site,
    "slim.mjs",
    entry("page-slim.mjs").replace("MODULE_URL", `"${paths[`${PACKAGE}/verifier.wasm`]}"`),
  );
  await report.run(`${title}, slim with a fetched module`, () => open(`slim.html${loading}`));

  write(site, "surface.html", page("surface.mjs", map));
  write(
    site,
    "surface.mjs",
    entry("page-surface.mjs")
      .replace("MODULE_URL", `"${paths[`${PACKAGE}/verifier.wasm`]}"`)
      .replace("PUBLIC_URL", `"${paths[`${PACKAGE}/public.wasm`]}"`),
  );
  if (FULL) await report.run(`${title}, the whole surface`, () => open("surface.html"));

  // An import map stands in the page, and so would need a policy that allows inline scripts.
  write(site, "direct.html", page("direct.mjs"));
  write(site, "direct.mjs", at(paths, entry("page.mjs")));
  await report.run(`${title}, module script under ${STRICT_POLICY}`, () =>
    open("direct.html", STRICT_POLICY),
  );

  const inert = STRICT_POLICY.replace(" 'wasm-unsafe-eval'", "");
  write(site, "inert.html", page("inert.mjs"));
  write(site, "inert.mjs", at(paths, entry("page-web.mjs")));
  await report.run(`${title}, the platform's cryptography under ${inert}`, () =>
    open("inert.html", inert),
  );

  write(site, "workers.html", page("workers.mjs"));
  write(site, "workers.mjs", WORKERS);
  write(site, "worker.mjs", workerCheck(paths));
  await report.run(`${title}, a shared key in workers`, () => open("workers.html"));

  write(site, "policy.html", page("policy.mjs"));
  write(site, "policy.mjs", policyCheck(paths[PACKAGE]));
  await report.run(`${title}, the policy is in force`, async () => {
    const allowed = await open("policy.html", STRICT_POLICY);
    const forbidden = await open("policy.html", STRICT_POLICY.replace(" 'wasm-unsafe-eval'", ""));
    const told = [...allowed, ...forbidden].filter(({ name }) => /^WebAssembly is/.test(name));
    const both = told.map(({ name }) => name).join(", ");
    const error = both === "WebAssembly is allowed, WebAssembly is forbidden" ? undefined : both;
    return [
      ...allowed,
      ...forbidden,
      { name: "the policy decides whether WebAssembly is allowed", error },
    ];
  });
}

function entry(name) {
  return readFileSync(new URL(name, ENTRIES), "utf8");
}

/** A script with the addresses of the entries in the place of their names. */
function at(paths, script) {
  const addressed = (text, [name, path]) => text.replace(`"${name}"`, `"${path}"`);
  return Object.entries(paths).reduce(addressed, script);
}

function page(script, head = "") {
  return `<!doctype html><meta charset="utf-8"><title>${script}</title>${head}
<script type="module" src="/${script}"></script>`;
}

function workerCheck(paths) {
  const [{ key, tests }] = JSON.parse(
    readFileSync(new URL("../../../../tests/vectors/v1.json", import.meta.url), "utf8"),
  ).groups.filter(({ action }) => action === "activate");
  const { token } = tests.find(({ result }) => result === "valid");
  return `
import { createVerifier } from ${JSON.stringify(paths[PACKAGE])};
import * as entry from ${JSON.stringify(paths[`${PACKAGE}/public`])};

function outcome(action) {
  try {
    return action();
  } catch (error) {
    return error.reason ?? String(error.stack);
  }
}

const keys = ${JSON.stringify(key)};
const works = () => createVerifier({ keys, dangerouslyAllowSecretInBrowser: true })
  .verify(${JSON.stringify(token)}, { action: "activate" }).action;
const publicKey = () => entry.createVerifier({ keys: "mrpk_" });
const results = [
  ["a shared key is refused", "ERR_SECRET_IN_BROWSER", outcome(() => createVerifier({ keys }))],
  ["a shared key is taken when the caller means it", "activate", outcome(works)],
  ["a public key is read", "ERR_KEY_INVALID", outcome(publicKey)],
].map(([name, expected, found]) => ({ name, error: found === expected ? undefined : found }));
globalThis.onmessage = ({ ports: [port] }) => port.postMessage(results);
`;
}

// Under a policy without 'wasm-unsafe-eval' no module may be compiled; if it were, the runs before
// would prove nothing.
function policyCheck(path) {
  return `
import { createVerifier } from ${JSON.stringify(path)};

function failure(action) {
  try {
    action();
    return undefined;
  } catch (error) {
    return error.reason ?? error.name;
  }
}

const policy = failure(() => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])));
const options = { keys: "00".repeat(32), dangerouslyAllowSecretInBrowser: true };
const verifier = failure(() => createVerifier(options));
const isRight = verifier === (policy && "ERR_WASM_UNAVAILABLE");
globalThis.results = [
  { name: "eval is refused", error: failure(() => (0, eval)("1")) ? undefined : "eval ran" },
  {
    name: "the package says when WebAssembly is forbidden",
    error: isRight ? undefined : \`\${policy}, then \${verifier}\`,
  },
  { name: \`WebAssembly is \${policy ? "forbidden" : "allowed"}\` },
];
`;
}
