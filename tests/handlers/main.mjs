// The handlers that web-demo/README.md shows, compiled against the real frameworks and run: `node main.mjs TARBALL FOLDER
// COMPILER`. FOLDER is made anew; the packed package is installed into it, and every block of the document pasted.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { build } from "esbuild";

import { files } from "../readme/document.mjs";
import { install, write } from "../runtimes/consumer.mjs";
import { deno } from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { Checks } from "../web/checks.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const FRAMEWORKS = ["@sveltejs", "hono", "next", "react", "svelte"];

const [tarball, folder, compiler] = process.argv.slice(2);
const document = readFileSync(join(HERE, "../../web-demo/README.md"), "utf8");
const shown = files(document);
const { key, tokens } = someTokens();

install(folder, tarball);
for (const name of FRAMEWORKS) symlinkSync(join(HERE, "node_modules", name), join(folder, "node_modules", name));
symlinkSync(join(HERE, "../../web-demo/node_modules/@types"), join(folder, "node_modules/@types"));
for (const [name, text] of Object.entries(shown)) write(folder, name, text);

// The origin that the handlers ask: says yes, and counts.
let calls = 0;
const origin = createServer((request, response) => {
  calls += 1;
  request.resume();
  response.setHeader("Content-Type", "application/json").end('{"verdict":"ok"}');
});
origin.listen(0, "127.0.0.1");
await once(origin, "listening");
process.env.MAILROOM_SECRET_KEY = key;
process.env.ORIGIN = `http://127.0.0.1:${origin.address().port}`;

const report = new Report();
await report.run("wrangler.jsonc", () => [bound()]);
await report.run("handlers, the compiler's verdict", () => [compiled()]);
await report.run("handler of Hono", async () => {
  const { default: app } = await bundled("hono.ts");
  return judged((request) => app.request(request));
});
await report.run("handler of Next.js", async () => {
  const { POST } = await bundled("route.ts");
  const { NextRequest } = await import(pathToFileURL(join(HERE, "node_modules/next/server.js")));
  return judged((request) => POST(new NextRequest(request)));
});
await report.run("handler of SvelteKit", async () => {
  const { POST } = await bundled("+server.ts");
  return judged((request) => POST({ request }));
});
if (deno() === undefined) {
  report.missing("handler of Deno", "npm has no deno for this machine; run `npm ci` in tests/");
} else {
  await report.run("handler of Deno", () => onDeno());
}
report.end();
origin.close();

/** Whatever the Worker is bound to is in the configuration or among the secrets of the document; the stage is not. */
function bound() {
  const edge = join(HERE, "../../web-demo/edge");
  const environment = readFileSync(join(edge, "environment.ts"), "utf8");
  const wanted = [...environment.matchAll(/^ {2}readonly (\w+): /gm)].map(([, name]) => name).toSorted();
  const text = readFileSync(join(edge, "wrangler.jsonc"), "utf8").replace(/^\s*\/\/.*$/gm, "");
  const { assets, durable_objects, vpc_services } = JSON.parse(text);
  const secrets = [...document.matchAll(/wrangler secret put (\w+)/g)].map(([, name]) => name);
  const objects = durable_objects.bindings.map(({ name }) => name);
  const services = vpc_services.map(({ binding }) => binding);
  const given = [assets.binding, ...objects, ...services, ...secrets].toSorted();
  const name = "it binds what the Worker needs";
  return { name, error: given.join() === wanted.join() ? undefined : `${given} instead of ${wanted}` };
}

/** The compiler of TypeScript, strict, over all of them at once; Deno brings its own types. */
function compiled() {
  const names = Object.keys(shown).filter((name) => name.endsWith(".ts") && name !== "deno.ts");
  const options = ["--noEmit", "--strict", "--module", "esnext", "--moduleResolution", "bundler", "--target", "es2022"];
  const more = [
    "--lib",
    "es2023,dom,dom.iterable",
    "--types",
    "node",
    "--skipLibCheck",
    "--allowImportingTsExtensions",
  ];
  const { status, stdout } = spawnSync(process.execPath, [compiler, ...options, ...more, ...names], {
    cwd: folder,
    encoding: "utf8",
  });
  return { name: names.join(", "), error: status === 0 && names.length === 4 ? undefined : `${names}: ${stdout}` };
}

async function bundled(name) {
  // As its own bundler finds it.
  const alias = { "next/server": "next/server.js" };
  const outfile = join(folder, `${name.replace(".ts", "")}.built.mjs`);
  const external = ["hono", "next/server.js", "@sveltejs/kit", "mailroom-verifier", "mailroom-verifier/*"];
  await build({
    entryPoints: [join(folder, name)],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    external,
    alias,
  });
  return import(pathToFileURL(outfile));
}

/** What a person can meet, in order; each handler begins with a store of its own. */
async function judged(answer) {
  const checks = new Checks();
  const press = async (token) => (await answer(form(token))).status;
  const before = calls;
  checks.same("a forged link is refused", await press(tokens.forged), 403);
  checks.same("what is no link is refused", await press("x"), 403);
  checks.same("the origin was not asked", calls - before, 0);
  checks.same("a genuine link is used", await press(tokens.genuine), 200);
  checks.same("the origin was asked once", calls - before, 1);
  checks.same("the same link is refused", await press(tokens.genuine), 403);
  checks.same("and the origin was not asked again", calls - before, 1);
  return checks.results;
}

async function onDeno() {
  const server = spawn(
    deno(),
    ["run", "--allow-net=127.0.0.1", "--allow-env", "--node-modules-dir=manual", "--no-lock", "--check", "deno.ts"],
    { cwd: folder, env: { ...process.env, PORT: "0", NO_COLOR: "1" }, stdio: ["ignore", "pipe", "pipe"] },
  );
  let said = "";
  const ended = once(server, "exit");
  try {
    const address = await new Promise((resolve, reject) => {
      for (const stream of [server.stdout, server.stderr]) {
        stream.on("data", (chunk) => {
          said += chunk;
          const found = /http:\/\/[^/\s]+/.exec(said)?.[0];
          if (found !== undefined && /Listening/.test(said)) resolve(found.replace("0.0.0.0", "127.0.0.1"));
        });
      }
      ended.then(() => reject(new Error(`deno has ended: ${said}`)));
    });
    return await judged(async (request) =>
      fetch(`${address}/activate`, { method: "POST", body: await request.formData() }),
    );
  } finally {
    server.kill();
    await ended;
  }
}

function form(token) {
  return new Request("http://127.0.0.1/activate", { method: "POST", body: new URLSearchParams({ token }) });
}

/** A v2 activation of the vectors that is valid for long. */
function someTokens() {
  const { groups } = JSON.parse(readFileSync(join(HERE, "../vectors/v2.json"), "utf8"));
  for (const group of groups.filter(({ action }) => action === "activate")) {
    for (const { result, token } of group.tests) {
      const expiry = Buffer.from(token, "base64url").readBigUInt64BE(6);
      if (result === "valid" && expiry > BigInt(Math.floor(Date.now() / 1000) + 31_536_000)) {
        const other = token.at(60) === "A" ? "B" : "A";
        return { key: group.key, tokens: { genuine: token, forged: token.slice(0, 60) + other + token.slice(61) } };
      }
    }
  }
  throw new Error("no vector is valid now");
}
