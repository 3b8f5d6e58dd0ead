// Follows the package's README as a new user does: `node main.mjs TARBALL FOLDER`. FOLDER is made
// anew and empty; the tarball is installed into it, and every block of the README, of the reference
// and of some pages of the book pasted as it stands.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { withChromium } from "../browser/chromium.mjs";
import * as esbuild from "../bundlers/esbuild.mjs";
import * as vite from "../bundlers/vite.mjs";
import { PACKAGE, write } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { onCloudflare } from "./cloudflare.mjs";
import { commands, errorSections, files } from "./document.mjs";
import { fromBetterAuth, fromJose, prepare } from "./migrating.mjs";
import { newPassword } from "./password.mjs";
import { onPage } from "./page.mjs";
import { threePages } from "./server.mjs";
import { onWorker } from "./worker.mjs";

const [tarball, folder] = process.argv.slice(2);
const installed = join(folder, "node_modules", PACKAGE);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
// Without the prefix, npm would look for a project in the folders above.
execFileSync("npm", ["install", "--prefix=.", "--no-audit", "--no-fund", tarball], {
  cwd: folder,
  stdio: ["ignore", "ignore", "inherit"],
});

const guides = fileURLToPath(new URL("../../../../docs/guides/", import.meta.url));
const documents = [
  ...["README.md", "REFERENCE.md"].map((name) => join(installed, name)),
  ...["verify-hmac", "jose", "better-auth"].map((name) => join(guides, "migrate", `${name}.md`)),
  join(guides, "cloudflare.md"),
];
const document = documents.map((name) => readFileSync(name, "utf8")).join("\n");
const shown = files(document);
for (const [name, text] of Object.entries(shown)) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  write(folder, name, text);
}
const [{ key, tests }] = JSON.parse(
  readFileSync(
    fileURLToPath(new URL("../../../../tests/vectors/v1.json", import.meta.url)),
    "utf8",
  ),
).groups.filter(({ action }) => action === "activate");
const tokens = tests.filter(({ result }) => result === "valid").map(({ token }) => token);

const report = new Report();
await report.run("README, what it shows", shownFiles);
await report.run("README, its commands", () => printed());
await report.run("README, its handler with the links that it shows", tried);
await report.run("REFERENCE, a form with a new password", () =>
  newPassword(join(folder, "reset"), shown, document),
);
await report.run("REFERENCE, three pages on a port", () =>
  threePages(join(folder, "reset"), shown, document),
);
await report.run("ERRORS, its sections", () => errors());
prepare(folder);
await report.run("the book, from jose", () => fromJose(folder));
await report.run("the book, from better-auth", () => fromBetterAuth(folder));
const chromium = programs.chromium();
const workerd = programs.workerd();
if (chromium === undefined || workerd === undefined) {
  report.missing("README, its page and its Worker", "Chromium or workerd is not installed");
} else {
  await withChromium(chromium, async (browser) => {
    await report.run("README, its page built by Vite", async () => {
      const output = built("page");
      await vite.bundlePage({ source: folder, output });
      return onPage(browser, output, tokens[0]);
    });
    await report.run("the book, on Cloudflare", () =>
      onCloudflare(join(folder, "cloudflare"), shown["on_cloudflare.js"], workerd, { key, tokens }),
    );
    await report.run("README, its Worker", async () => {
      const output = built("worker");
      await esbuild.bundleWorker({ source: folder, entry: "worker.js", output });
      return onWorker(
        browser,
        { program: workerd, folder: output, main: "main.mjs" },
        { key, tokens },
      );
    });
  });
}
report.end();

function shownFiles() {
  const names = Object.keys(shown).toSorted().join(" ");
  const expected =
    "accounts.ts app/activate/route.ts app/forgot/route.ts app/recover/route.ts " +
    "app/signup/page.tsx ask.ts " +
    "better_auth_after.mjs better_auth_before.mjs browser.mjs conformance.mjs " +
    "hmac_after.mjs hmac_before.mjs index.html invite.ts jose_after.mjs jose_before.mjs links.js " +
    "links.test.mjs " +
    "main.js on_cloudflare.js public.mjs recover.cjs redeem.mjs server.ts slim.mjs " +
    "verify.mjs web.mjs worker.js";
  // A block whose fence is spelt otherwise would be left out in silence.
  return [{ name: "the files of the README", error: names === expected ? undefined : names }];
}

/** What the README says to try the handler with: the key and the tokens of `redeem.mjs`. */
async function tried() {
  const place = join(folder, "try");
  mkdirSync(place, { recursive: true });
  write(place, "links.js", shown["links.js"]);
  write(place, "database.js", 'export const redeem = async () => "ok";\n');
  process.env.MAILROOM_SECRET_KEY = /keys: "([0-9a-f]{64})"/.exec(shown["redeem.mjs"])[1];
  const { links } = await import(pathToFileURL(join(place, "links.js")));
  const { text } = commands(document).find(({ text }) => text.startsWith("node redeem.mjs"));
  const [activation, recovery] = text.match(/Ag[\w-]{100,}/g);
  const ask = async (path, token, form) => {
    const url = `https://app.example/${path}`;
    const headers = { Origin: "https://app.example" };
    const body = form && new URLSearchParams({ token, ...form });
    const request = body
      ? new Request(url, { method: "POST", headers, body })
      : new Request(`${url}?token=${token}`);
    return (await links(request)).status;
  };
  const statuses = [
    await ask("activate", activation),
    await ask("activate", activation, {}),
    await ask("activate", activation, {}),
    await ask("recover", recovery),
    await ask("recover", recovery, { code: "31943" }),
  ].join(" ");
  return [
    {
      name: "a press works once",
      error: statuses === "200 200 409 200 200" ? undefined : statuses,
    },
  ];
}

/**
 * Every block of commands, in one shell, as whoever reads on has the variables
 * of the blocks before.
 */
function printed() {
  const all = commands(document);
  const end = "-- end of block --";
  const script = all.map(({ text }) => `${text}echo '${end}'\n`).join("");
  const output = execFileSync("bash", ["-e", "-u", "-o", "pipefail", "-c", script], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  const parts = output.split(`${end}\n`);
  const results = all.map(({ text, output: expected }, index) => ({
    name: text.trim().split("\n").at(-1),
    error: parts[index] === expected ? undefined : `printed:\n${parts[index]}`,
  }));
  const count = {
    name: "the number of blocks",
    error: all.length === 11 ? undefined : String(all.length),
  };
  return [...results, count];
}

async function errors() {
  const module = await import(join(installed, "dist/errors.js"));
  const { homepage } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  const page = homepage.replace("/tree/", "/blob/").replace("#readme", "/errors.md");
  const classes = Object.values(module).filter(
    (type) => typeof type === "function" && type.reason !== undefined,
  );
  const exist = classes.map((Type) => {
    const base = [module.VerificationError, module.RedemptionError].find(
      (Base) => Type.prototype instanceof Base,
    );
    return [
      Type.reason,
      Type.name,
      Type.kind,
      base?.name ?? "Always thrown",
      new Type("message").help,
    ].join(" ");
  });
  // The anchor of a heading is its text in lower case.
  const listed = errorSections(readFileSync(join(installed, "errors.md"), "utf8")).map(
    ({ reason, name, kind, under }) =>
      [reason, name, kind, under, `${page}#${reason.toLowerCase()}`].join(" "),
  );
  const [found, expected] = [listed, exist].map((lines) => lines.toSorted().join("\n"));
  return [
    {
      name: "every class has its section, of its kind and under its base, which its help names",
      error: found === expected ? undefined : `${found}\ninstead of\n${expected}`,
    },
  ];
}

function built(kind) {
  const output = `${folder}-${kind}`;
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output);
  return output;
}
