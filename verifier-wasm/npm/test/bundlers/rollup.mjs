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
  await bundled.write({ file: join(output, "main.mjs"), format: "es", inlineDynamicImports: true });
  await bundled.close();
}
