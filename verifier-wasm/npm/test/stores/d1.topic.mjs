// The store in D1, in workerd as miniflare configures it.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import * as programs from "../runtimes/programs.mjs";
import { freshLinks } from "./links.mjs";
import { withMiniflare } from "./miniflare_server.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

/** As many as the Worker uses, which cannot sign any. */
const LINKS = 100;

export async function run({ report, folder }) {
  // Miniflare needs a newer Node than the package.
  const node = programs.NODES.at(-1).path();
  if (node === undefined) {
    report.missing(
      "D1",
      "npm has no newer Node for this machine; run `npm ci` in verifier-wasm/npm/test",
    );
    return;
  }
  const worker = join(folder, "d1");
  await build({
    entryPoints: [here("d1_worker.mjs")],
    outdir: worker,
    bundle: true,
    format: "esm",
    platform: "neutral",
    conditions: ["workerd", "worker", "import"],
    loader: { ".wasm": "copy" },
    nodePaths: [join(folder, "node_modules")],
    logLevel: "error",
  });
  const modules = readdirSync(worker).sort();
  for (const topic of ["conformance", "redeeming", "rows", "interruptions"]) {
    await report.run(`D1, ${topic}`, () =>
      withMiniflare(node, { folder: worker, modules, databases: ["DB", "EMPTY"] }, async (url) => {
        const body = JSON.stringify({
          topic,
          links: freshLinks(),
          more: Array.from({ length: LINKS }, freshLinks),
        });
        const response = await fetch(url, {
          method: "POST",
          body,
          signal: AbortSignal.timeout(300_000),
        });
        const text = await response.text();
        if (!response.ok) throw new Error(`the Worker answered ${response.status}: ${text}`);
        return JSON.parse(text);
      }),
    );
  }
}
