// The suite on every runtime without a window: `node main.mjs TARBALL FOLDER`. FOLDER is made anew.

import { cpSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

import { PACKAGE, addSuite, addSurface, install } from "./consumer.mjs";
import { resolveExport } from "./exports.mjs";
import { resultsOf } from "./program.mjs";
import * as programs from "./programs.mjs";
import { Report } from "./report.mjs";
import { resultsOf as resultsOfWorker, withWorker } from "./workerd.mjs";

const [tarball, folder] = process.argv.slice(2);
const installed = install(folder, tarball);
addSuite(folder);
const entries = await addSurface(folder, installed);
cpSync(fileURLToPath(new URL("entry", import.meta.url)), folder, { recursive: true });

const report = new Report();
for (const { title, path } of programs.NODES) {
  await onProgram(title, path(), {
    import: ["--expose-gc", "program.mjs"],
    require: ["--expose-gc", "required.cjs"],
    slim: ["--expose-gc", "slim.mjs"],
    "the whole surface": ["surface.mjs"],
    "without FinalizationRegistry": ["--expose-gc", "unfinalized.mjs"],
  });
}
await onProgram("Node, installed", process.execPath, {
  "ten million": ["--expose-gc", "millions.mjs", "10"],
  "a million without FinalizationRegistry": ["--expose-gc", "unfinalized-millions.mjs", "1"],
});
// Deno grants nothing unless it is asked to: the package needs no permission.
const denoOptions = [
  "run",
  "--no-prompt",
  "--no-lock",
  "--cached-only",
  "--node-modules-dir=manual",
  "--v8-flags=--expose-gc",
];
await onProgram("Deno", programs.deno(), {
  import: [...denoOptions, "program.mjs"],
  require: [...denoOptions, "--allow-read=.", "required.cjs"],
  slim: [...denoOptions, "--allow-read=.", "slim.mjs"],
  "the whole surface": [...denoOptions, "--allow-read=.", "surface.mjs"],
  "without FinalizationRegistry": [...denoOptions, "unfinalized.mjs"],
  "a million": [...denoOptions, "--allow-sys", "millions.mjs", "1"],
});
await onProgram("Bun", programs.bun(), {
  import: ["run", "program.mjs"],
  require: ["run", "required.cjs"],
  slim: ["run", "slim.mjs"],
  "the whole surface": ["run", "surface.mjs"],
  "without FinalizationRegistry": ["run", "unfinalized.mjs"],
  "a million": ["run", "millions.mjs", "1"],
});
await onWorkerd();
report.end();

async function onProgram(title, program, runs) {
  if (program === undefined) {
    report.missing(title, "npm has no program for this machine; run `npm ci` in tests/");
    return;
  }
  const version = programs.version(program);
  for (const [how, args] of Object.entries(runs)) {
    await report.run(`${title} ${version}, ${how}`, () => resultsOf(program, args, folder));
  }
}

async function onWorkerd() {
  const program = programs.workerd();
  if (program === undefined) {
    report.missing("workerd", "npm has no program for this machine; run `npm ci` in tests/");
    return;
  }
  const version = programs.version(program);
  const aliases = Object.fromEntries(
    [...entries, "./verifier.wasm", "./public.wasm"].map((subpath) => [
      posix.join(PACKAGE, subpath),
      posix.join("node_modules", PACKAGE, resolveExport(installed, subpath, ["workerd", "worker", "import"])),
    ]),
  );
  // FinalizationRegistry came on 2025-05-05, compiling bytes while a Worker is loaded on 2025-06-01. Before and after
  // each, with the modules of Node and without; since 2026-08-04 they are there unless two flags say otherwise.
  const unfinalized = "2025-05-04";
  const before = "2025-05-31";
  const now = version;
  const whole = { program, folder, main: "worker-surface.mjs", date: version, flags: [], aliases };
  await report.run(`workerd ${version}, the whole surface`, () => withWorker(whole, resultsOfWorker));
  const withNode = ["nodejs_compat"];
  const withoutNode = ["no_nodejs_compat", "no_nodejs_compat_v2"];
  for (const [date, node, flags] of [
    [unfinalized, false, []],
    [unfinalized, true, withNode],
    [before, false, []],
    [before, true, withNode],
    [now, false, withoutNode],
    [now, true, []],
  ]) {
    const title = ["workerd", version, "of", date, ...flags].join(" ");
    for (const main of ["worker.mjs", "worker-slim.mjs"]) {
      const worker = { program, folder, main, date, flags, aliases };
      await report.run(`${title}, ${main}`, async () => {
        const expected = new URLSearchParams({
          FinalizationRegistry: date === unfinalized ? "undefined" : "function",
          process: node ? "object" : "undefined",
        });
        return withWorker(worker, (url) => resultsOfWorker(`${url}/?${expected}`));
      });
    }
  }
}
