// What the package weighs.

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { constants, gzipSync } from "node:zlib";

import { build } from "esbuild";

import { PACKAGE } from "../runtimes/consumer.mjs";
import { resolveExport } from "../runtimes/exports.mjs";

/**
 * @param {string} tarball
 * @param {string} consumer a folder into which the tarball is installed
 */
export async function sizes(tarball, consumer) {
  const installed = join(consumer, "node_modules", PACKAGE);
  const publicModule = readFileSync(join(installed, "dist/public.wasm"));
  return {
    wasm_bytes: statSync(join(installed, resolveExport(installed, "./verifier.wasm", ["import"])))
      .size,
    inline_min_gzip_bytes: await bundled(PACKAGE, consumer),
    public_wasm_bytes: publicModule.length,
    public_wasm_gzip_bytes: gzipped(publicModule),
    public_min_gzip_bytes: await bundled(`${PACKAGE}/public`, consumer),
    tarball_bytes: readFileSync(tarball).length,
  };
}

/** The bytes of an entry in a bundle, minified and gzipped. */
async function bundled(entry, consumer) {
  const { outputFiles } = await build({
    stdin: { contents: `export * from "${entry}";`, resolveDir: consumer },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "browser",
    logLevel: "error",
  });
  return gzipped(outputFiles[0].contents);
}

function gzipped(bytes) {
  return gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION }).length;
}
