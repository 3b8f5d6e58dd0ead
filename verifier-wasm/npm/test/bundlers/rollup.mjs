import { join } from "node:path";

import nodeResolve from "@rollup/plugin-node-resolve";
import { VERSION, rollup } from "rollup";

export const name = "Rollup";
export const version = VERSION;

/** Builds `entry` of `source` into `main.mjs` of `output`, for `node` or a `browser`. */
export async function bundle({ source, entry, output, target }) {
  const bundled = await rollup({
    input: join(source, entry),
    plugins: [nodeResolve({ browser: target === "browser", exportConditions: [target] })],
    external: /^node:/,
    onwarn: (warning) => {
      throw new Error(warning.message);
    },
  });
  // Modules that are imported dynamically get chunks of their own, as by default. In one file they
  // are evaluated after the entry, and the entry of a test waits for the whole suite.
  const names = { entryFileNames: "main.mjs", chunkFileNames: "[name].mjs" };
  await bundled.write({ dir: output, format: "es", ...names });
  await bundled.close();
}
