// `pg` in a Worker, where a connection is of the request that opened it: with the files that
// REFERENCE.md shows, on a real PostgreSQL.

import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { Checks } from "../checks.mjs";
import { write } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { withMiniflare } from "../stores/miniflare_server.mjs";
import { PATIENCE, until } from "../waiting.mjs";

const REFERENCE = fileURLToPath(new URL("../../REFERENCE.md", import.meta.url));
const WORKER = fileURLToPath(new URL("pg_worker.mjs", import.meta.url));

/** Runs of a report: a title, a program that it needs, and what comes of it there. */
export function* inWorker(scene, folder) {
  // Miniflare needs a newer Node than the package.
  const node = programs.NODES.at(-1).path();
  yield ["workerd", node, () => onWorkerd(scene, node, join(folder, "worker"))];
}

async function onWorkerd(scene, node, folder) {
  const checks = new Checks();
  const output = join(folder, "dist");
  mkdirSync(output, { recursive: true });
  copyFileSync(WORKER, join(folder, "pg_worker.mjs"));
  const [, accounts] = /^```ts\n\/\/ accounts\.ts\n(.*?)^```$/ms.exec(
    readFileSync(REFERENCE, "utf8"),
  );
  // As the document says of Workers; and with the time that a busy machine takes to connect.
  const pool = "new Pool({ maxUses: 1,";
  const patient = accounts.replace("Millis: 5_000", "Millis: 60_000");
  write(folder, "accounts.ts", patient.replace("new Pool({", pool));
  await bundle(folder, output);
  const { host, port, database: name } = scene.server;
  const worker = {
    folder: output,
    modules: ["main.mjs", "verifier.wasm"],
    flags: ["nodejs_compat"],
    bindings: { DATABASE_URL: `postgresql://${process.env.PGUSER}@${host}:${port}/${name}` },
  };
  const made = async (email) => {
    const tokens = await scene.rows(
      `SELECT name FROM mailroom.issued_tokens AS tokens
      JOIN mailroom.actions ON number = action WHERE recipient_email = $1 ORDER BY id`,
      [email],
    );
    return tokens.map((token) => token.name).join();
  };
  await withMiniflare(node, worker, async (url) => {
    const ask = async (path, query = {}) => {
      const address = new URL(`${path}?${new URLSearchParams(query)}`, url);
      const answer = await fetch(address, { signal: AbortSignal.timeout(PATIENCE) });
      return `${answer.status} ${await answer.text()}`;
    };
    const [ada, bob] = ["ada", "bob"].map((one) => `${one}.${Date.now()}@worker.test`);
    for (const email of [ada, bob]) {
      checks.same(`${email} registers`, await ask("/register", { email }), "200 registered");
      checks.same("with a mail", await made(email), "activate");
    }
    const digits = await ask("/ask", { email: ada });
    checks.same("a browser has five digits", /^200 \d{5}$/.test(digits), true);
    await until("the mail that was asked for", async () => (await made(ada)).includes("recover"));
    checks.same(
      "a pool that lends connections again is refused",
      await ask("/pool"),
      "200 pg takes a Pool of pg, in a Worker with maxUses: 1",
    );
  });
  return checks.results;
}

/** As wrangler does under `nodejs_compat`: modules of Node are there by both of their names. */
async function bundle(folder, output) {
  const node = {
    name: "node",
    setup({ onResolve, onLoad }) {
      const names = new RegExp(`^(${builtinModules.join("|")})$`);
      onResolve({ filter: names }, ({ path }) => ({ path, namespace: "node" }));
      onLoad({ filter: /./, namespace: "node" }, ({ path }) => ({
        contents: `export * from "node:${path}"; export { default } from "node:${path}";`,
      }));
    },
  };
  await build({
    entryPoints: [join(folder, "pg_worker.mjs")],
    outfile: join(output, "main.mjs"),
    bundle: true,
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["workerd", "worker", "browser"],
    external: ["node:*", "cloudflare:*", "pg-native"],
    loader: { ".wasm": "copy" },
    assetNames: "[name]",
    nodePaths: [fileURLToPath(new URL("../node_modules", import.meta.url))],
    plugins: [node],
    logLevel: "error",
  });
}
