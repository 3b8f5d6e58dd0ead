// Tests the packed package: `node main.mjs TARBALL FOLDER`. FOLDER is made anew, and the package
// installed into it.

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { install } from "../runtimes/consumer.mjs";

const [tarball, folder] = process.argv.slice(2);
install(folder, tarball);

const here = fileURLToPath(new URL(".", import.meta.url));
const tests = readdirSync(here).filter((name) => name.endsWith(".test.mjs"));
const { status } = spawnSync(
  process.execPath,
  ["--test", "--test-reporter=./reporter.mjs", ...tests],
  {
    cwd: here,
    env: { ...process.env, CONSUMER: folder, TARBALL: tarball },
    stdio: "inherit",
  },
);
process.exitCode = status ?? 1;
