// The suite on every runtime without a window: `node main.mjs TARBALL FOLDER`. FOLDER is made anew.
// The whole suite runs once on each, and what another way to load the package can change in that
// way; everything in every way with `--full`. Two engines run at a time: much of the suite waits.

import { cpSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

import { PACKAGE, addSuite, addSurface, install } from "./consumer.mjs";
import { resolveExport } from "./exports.mjs";
import { resultsOf } from "./program.mjs";
import * as programs from "./programs.mjs";
import { Report } from "./report.mjs";
import {
  freeing,
  FULL,
  judging,
  loading,
  loadingQuery,
  RANDOM_CALLS,
  RANDOM_TOKENS,
} from "./scope.mjs";
import { resultsOf as resultsOfWorker, withWorker } from "./workerd.mjs";

const [tarball, folder] = process.argv.slice(2);
const installed = install(folder, tarball);
addSuite(folder);
const entries = await addSurface(folder, installed);
cpSync(fileURLToPath(new URL("entry", import.meta.url)), folder, { recursive: true });

const report = new Report();
// Deno grants nothing unless it is asked to: the package needs no permission.
const denoOptions = [
  "run",
  "--no-prompt",
  "--no-lock",
  "--cached-only",
  "--node-modules-dir=manual",
  "--v8-flags=--expose-gc",
];
await Promise.all([onNodes().then(onDeno), onBun().then(onWorkerd)]);
report.end();

async function onNodes() {
  // The oldest and the newest; with `--full` the one that runs this, too.
  for (const { title, path } of FULL
    ? programs.NODES
    : [programs.NODES[0], programs.NODES.at(-1)]) {
    await onProgram(title, path(), {
      import: ["--expose-gc", "program.mjs"],
      require: ["--expose-gc", "required.cjs", ...loading],
      slim: ["--expose-gc", "slim.mjs", ...loading],
      "without FinalizationRegistry": ["--expose-gc", "unfinalized.mjs", ...freeing],
      "the platform's Ed25519": ["platform.mjs", ...judging],
      "the platform's cryptography": ["web.mjs", String(RANDOM_TOKENS)],
      ...(FULL && { "the whole surface": ["surface.mjs", String(RANDOM_CALLS)] }),
    });
  }
  if (FULL) {
    await onProgram("Node, installed", process.execPath, {
      "ten million": ["--expose-gc", "millions.mjs", "10"],
      "a million without FinalizationRegistry": ["--expose-gc", "unfinalized-millions.mjs", "1"],
    });
  } else {
    await onProgram(programs.NODES.at(-1).title, programs.NODES.at(-1).path(), {
      "the whole surface": ["surface.mjs", String(RANDOM_CALLS)],
      "a million": ["--expose-gc", "millions.mjs", "1"],
    });
  }
}

function onDeno() {
  return onProgram("Deno", programs.deno(), {
    import: [...denoOptions, "program.mjs"],
    require: [...denoOptions, "--allow-read=.", "required.cjs", ...loading],
    slim: [...denoOptions, "--allow-read=.", "slim.mjs", ...loading],
    "without FinalizationRegistry": [...denoOptions, "unfinalized.mjs", ...freeing],
    "the platform's Ed25519": [...denoOptions, "--allow-read=.", "platform.mjs", ...judging],
    "the platform's cryptography": [...denoOptions, "web.mjs", String(RANDOM_TOKENS)],
    ...(FULL && {
      "the whole surface": [...denoOptions, "--allow-read=.", "surface.mjs", String(RANDOM_CALLS)],
      "a million": [...denoOptions, "--allow-sys", "millions.mjs", "1"],
    }),
  });
}

function onBun() {
  return onProgram("Bun", programs.bun(), {
    import: ["run", "program.mjs"],
    require: ["run", "required.cjs", ...loading],
    slim: ["run", "slim.mjs", ...loading],
    // The engine of Safari, which shares nothing with that of the others.
    "the whole surface": ["run", "surface.mjs", String(RANDOM_CALLS)],
    "without FinalizationRegistry": ["run", "unfinalized.mjs", ...freeing],
    "the platform's Ed25519": ["run", "platform.mjs", ...judging],
    "the platform's cryptography": ["run", "web.mjs", String(RANDOM_TOKENS)],
    ...(FULL && { "a million": ["run", "millions.mjs", "1"] }),
  });
}

async function onProgram(title, program, runs) {
  if (program === undefined) {
    report.missing(
      title,
      "npm has no program for this machine; run `npm ci` in verifier-wasm/npm/test",
    );
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
    report.missing(
      "workerd",
      "npm has no program for this machine; run `npm ci` in verifier-wasm/npm/test",
    );
    return;
  }
  const version = programs.version(program);
  const aliases = Object.fromEntries(
    [...entries, "./verifier.wasm", "./public.wasm"].map((subpath) => [
      posix.join(PACKAGE, subpath),
      posix.join(
        "node_modules",
        PACKAGE,
        resolveExport(installed, subpath, ["workerd", "worker", "import"]),
      ),
    ]),
  );
  // FinalizationRegistry came on 2025-05-05, compiling bytes while a Worker is loaded on
  // 2025-06-01. Before and after each, with the modules of Node and without; since 2026-08-04 they
  // are there unless two flags say otherwise.
  const unfinalized = "2025-05-04";
  const before = "2025-05-31";
  const now = version;
  const whole = { program, folder, main: "worker-surface.mjs", date: version, flags: [], aliases };
  if (FULL)
    await report.run(`workerd ${version}, the whole surface`, () =>
      withWorker(whole, resultsOfWorker),
    );
  const web = { program, folder, main: "worker-web.mjs", date: version, flags: [], aliases };
  await report.run(`workerd ${version}, the platform's cryptography`, () =>
    withWorker(web, (url) => resultsOfWorker(`${url}/?count=${RANDOM_TOKENS}`)),
  );
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
        const isWhole = date === now && node && main === "worker.mjs";
        const expected = new URLSearchParams({
          ...(isWhole ? {} : loadingQuery),
          FinalizationRegistry: date === unfinalized ? "undefined" : "function",
          process: node ? "object" : "undefined",
          signatures: node ? "platform" : "webassembly",
        });
        return withWorker(worker, (url) => resultsOfWorker(`${url}/?${expected}`));
      });
    }
  }
}
