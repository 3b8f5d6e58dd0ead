// The project that has installed the packed package, and what the tests need of it.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const { CONSUMER, TARBALL } = process.env;
if (!CONSUMER || !TARBALL) throw new Error("run these tests by `cargo xtask test npm`");

export const consumer = CONSUMER;
export const tarball = TARBALL;
/** The folder of the installed package. */
export const installed = join(consumer, "node_modules/mailroom-verifier");
/** The folder of the sources, for the tools that are installed there. */
export const sources = fileURLToPath(new URL("../..", import.meta.url));
/** The folder of the repository. */
export const repository = fileURLToPath(new URL("../../../..", import.meta.url));

/** Loads an entry as the consumer does. */
export const load = createRequire(join(consumer, "package.json"));

export const vectors = JSON.parse(readFileSync(join(repository, "tests/vectors/v1.json"), "utf8"));

/** The genuine links of the vectors, with key and action. */
export const genuine = vectors.groups.flatMap(({ key, action, tests }) =>
  tests.filter(({ result }) => result === "valid").map((test) => ({ ...test, key, action })),
);

/**
 * Runs a program in the consumer, or where `cwd` says, with nothing in its environment but what is
 * needed to find it, and `env`.
 *
 * @returns {Promise<{ status: number | null, stdout: string, stderr: string }>}
 */
export function run(program, args, { input = "", env = {}, cwd = consumer } = {}) {
  return new Promise((resolve) => {
    const environment = { PATH: process.env.PATH, HOME: consumer, ...env };
    const options = { cwd, env: environment, maxBuffer: 1 << 28, timeout: 600_000 };
    const child = execFile(program, args, options, (error, stdout, stderr) =>
      resolve({ status: error ? (error.code ?? null) : 0, stdout, stderr }),
    );
    // A program that ends before it has read everything closes the pipe.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}
