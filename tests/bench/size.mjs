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
  const { outputFiles } = await build({
    stdin: { contents: `export * from "${PACKAGE}";`, resolveDir: consumer },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "browser",
    logLevel: "error",
  });
  const inline = outputFiles[0].contents;
  return {
    wasm_bytes: statSync(join(installed, resolveExport(installed, "./verifier.wasm", ["import"]))).size,
    inline_min_gzip_bytes: gzipSync(inline, { level: constants.Z_BEST_COMPRESSION }).length,
    tarball_bytes: readFileSync(tarball).length,
  };
}
