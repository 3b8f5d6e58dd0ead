import { parseArgs } from "node:util";

import { install } from "../runtimes/consumer.mjs";

/** Reads the command line of a benchmark and installs the package into a fresh consumer. */
export function prepare(more = {}) {
  const { values } = parseArgs({
    options: {
      tarball: { type: "string" },
      folder: { type: "string" },
      json: { type: "boolean", default: false },
      ...more,
    },
  });
  install(values.folder, values.tarball);
  const { tarball, folder: consumer, ...others } = values;
  return { tarball, consumer, ...others };
}
