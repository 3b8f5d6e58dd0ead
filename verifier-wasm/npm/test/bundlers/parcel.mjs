import { createRequire } from "node:module";
import { join } from "node:path";

import { Parcel } from "@parcel/core";

const { resolve } = createRequire(import.meta.url);

export const name = "Parcel";
export const { version } = createRequire(import.meta.url)("parcel/package.json");

/** Builds `entry` of `source` for Node, with no option of a resolver: so it reads no `exports`. */
export async function bundleProgram({ source, entry, output }) {
  await new Parcel({
    entries: join(source, entry),
    defaultConfig: resolve("@parcel/config-default"),
    mode: "production",
    shouldDisableCache: true,
    cacheDir: join(output, "cache"),
    targets: {
      main: {
        context: "node",
        engines: { node: ">=20.19" },
        includeNodeModules: true,
        outputFormat: "esmodule",
        distDir: output,
        distEntry: "main.mjs",
      },
    },
  }).run();
}
