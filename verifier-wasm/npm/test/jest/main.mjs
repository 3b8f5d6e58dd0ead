// The packed package in a fresh project with Jest, without any configuration:
// `node main.mjs TARBALL FOLDER`. FOLDER is made anew.

import { execFile } from "node:child_process";
import { copyFileSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { install, write } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { ANSWER_TIMEOUT } from "../runtimes/scope.mjs";
import { PATIENCE } from "../waiting.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const ENVIRONMENTS = { node: "", jsdom: "/** @jest-environment jsdom */\n" };

const [tarball, folder] = process.argv.slice(2);
install(folder, tarball);
for (const name of ["jest", "jest-environment-jsdom"]) {
  symlinkSync(here(`node_modules/${name}`), join(folder, "node_modules", name), "dir");
}
// As `npm init` writes it: without `type`.
write(folder, "package.json", JSON.stringify({ name: "consumer", version: "1.0.0" }));
copyFileSync(here("checks.cjs"), join(folder, "checks.cjs"));
const [{ key, tests }] = JSON.parse(
  readFileSync(here("../../../../tests/vectors/v1.json"), "utf8"),
).groups.filter(({ action }) => action === "activate");
const { token } = tests.find(({ result }) => result === "valid");
const given = JSON.stringify({ key, token });
for (const [name, head] of Object.entries(ENVIRONMENTS)) {
  write(
    folder,
    `${name}.test.cjs`,
    `${head}require("./checks.cjs")(async (name) => require(name), ${given});\n`,
  );
  const imported = `import checks from "./checks.cjs";
checks((name) => import(name), ${given});
`;
  write(folder, `${name}.test.mjs`, head + imported);
}

const report = new Report();
for (const { title, path } of programs.NODES) {
  const program = path();
  if (program === undefined) {
    report.missing(
      title,
      "npm has no program for this machine; run `npm ci` in verifier-wasm/npm/test",
    );
    continue;
  }
  const named = `Jest on ${title} ${programs.version(program)}`;
  await report.run(`${named}, required`, () => jest(program, [], "cjs"));
  // What Jest's documentation says for tests that are modules.
  await report.run(`${named}, imported`, () => jest(program, ["--experimental-vm-modules"], "mjs"));
}
report.end();

async function jest(program, options, extension) {
  const files = Object.keys(ENVIRONMENTS).map((name) => `${name}.test.${extension}`);
  const args = [
    ...options,
    "node_modules/jest/bin/jest.js",
    "--ci",
    "--json",
    "--no-cache",
    "--runInBand",
    // By default a test that imports every entry has five seconds.
    `--testTimeout=${PATIENCE}`,
    ...files,
  ];
  const { stdout, stderr } = await new Promise((resolve) => {
    execFile(program, args, { cwd: folder, timeout: ANSWER_TIMEOUT }, (_, stdout, stderr) =>
      resolve({ stdout, stderr }),
    );
  });
  if (!stdout.startsWith("{")) throw new Error(stdout + stderr);
  const { testResults } = JSON.parse(stdout);
  const results = testResults.flatMap(({ name, message, assertionResults }) => {
    const file = name.split("/").at(-1);
    const found = assertionResults.map(({ title, status, failureMessages }) => ({
      name: `${file}, ${title}`,
      error: status === "passed" ? undefined : failureMessages.join("\n") || status,
    }));
    return found.length > 0 ? found : [{ name: file, error: message || "no test ran" }];
  });
  const ran = {
    name: "all files ran",
    error: testResults.length === files.length ? undefined : stderr,
  };
  return [ran, ...results];
}
