// The store in Deno KV, in Deno.

import { execFile } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { addSuite } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { freshLinks } from "./links.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const FILES = [
  "deno_program.mjs",
  "outcomes.mjs",
  "redeeming.mjs",
  "interruptions.mjs",
  "network.mjs",
];

export async function run({ report, folder }) {
  const program = programs.deno();
  if (program === undefined) {
    report.missing(
      "Deno KV",
      "npm has no deno for this machine; run `npm ci` in verifier-wasm/npm/test",
    );
    return;
  }
  addSuite(folder);
  // Beside the suite, as the imports of the files expect it.
  for (const file of FILES) cpSync(here(file), join(folder, "kv", file));
  cpSync(join(folder, "suite"), join(folder, "runtimes/suite"), { recursive: true });
  const options = [
    "run",
    "--no-prompt",
    "--no-lock",
    "--cached-only",
    "--node-modules-dir=manual",
    "--unstable-kv",
  ];
  const title = `Deno KV of Deno ${programs.version(program)}`;
  for (const topic of ["conformance", "redeeming", "entries", "interruptions"]) {
    await report.run(`${title}, ${topic}`, async () => {
      const files = [`--allow-read=${folder}`, `--allow-write=${folder}`];
      const running = promisify(execFile)(
        program,
        [...options, ...files, join(folder, "kv/deno_program.mjs"), topic],
        {
          cwd: folder,
          timeout: 300_000,
          maxBuffer: 2 ** 24,
        },
      );
      running.child.stdin.end(
        JSON.stringify({ links: freshLinks(), more: Array.from({ length: 100 }, freshLinks) }),
      );
      return JSON.parse((await running).stdout);
    });
  }
}
