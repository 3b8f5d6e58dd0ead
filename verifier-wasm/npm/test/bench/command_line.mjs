import { parseArgs } from "node:util";

import { install } from "../runtimes/consumer.mjs";

/** Reads the command line of a benchmark and installs the package into a fresh consumer. */
export function prepare() {
  const { values } = parseArgs({
    options: {
      tarball: { type: "string" },
      folder: { type: "string" },
      json: { type: "boolean", default: false },
    },
  });
  install(values.folder, values.tarball);
  return { tarball: values.tarball, consumer: values.folder, json: values.json };
}
