import { join } from "node:path";

import { build, version as installed } from "esbuild";

export const name = "esbuild";
export const version = installed;

/** Builds `entry` of `source` into `main.mjs` of `output`, for `node` or a `browser`. */
export async function bundle({ source, entry, output, target }) {
  await build({
    entryPoints: [join(source, entry)],
    outfile: join(output, "main.mjs"),
    bundle: true,
    minify: true,
    format: "esm",
    platform: target,
    logLevel: "error",
  });
}

/**
 * Builds a Worker as Cloudflare's tools do: with their conditions,
 * `.wasm` files beside the script as modules.
 */
export async function bundleWorker({ source, entry, output }) {
  await build({
    entryPoints: [join(source, entry)],
    outfile: join(output, "main.mjs"),
    bundle: true,
    minify: true,
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*"],
    loader: { ".wasm": "copy" },
    logLevel: "error",
  });
}
