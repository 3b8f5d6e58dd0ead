// Bundlers build programs that use the package, and the programs run:
// `node main.mjs TARBALL FOLDER`. FOLDER is made anew.

import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { resultsOf as resultsOfPage, withChromium } from "../browser/chromium.mjs";
import { STRICT_POLICY, withServer } from "../browser/server.mjs";
import { PACKAGE, addSuite, addSurface, install, write } from "../runtimes/consumer.mjs";
import { resultsOf } from "../runtimes/program.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { loading, loadingQuery } from "../runtimes/scope.mjs";
import { resultsOf as resultsOfWorker, withWorker } from "../runtimes/workerd.mjs";
import * as esbuild from "./esbuild.mjs";
import * as parcel from "./parcel.mjs";
import * as rollup from "./rollup.mjs";
import * as vite from "./vite.mjs";
import * as webpack from "./webpack.mjs";

const BUNDLERS = [esbuild, rollup, vite, webpack];
const ENTRIES = fileURLToPath(new URL("../runtimes/entry", import.meta.url));
const PAGE =
  '<!doctype html><meta charset="utf-8"><title>suite</title>' +
  '<script type="module" src="/SCRIPT"></script>';

const [tarball, folder] = process.argv.slice(2);
const source = join(folder, "source");
rmSync(folder, { recursive: true, force: true });
const installed = install(source, tarball);
addSuite(source);
await addSurface(source, installed);
cpSync(ENTRIES, source, { recursive: true });
write(source, "index.html", PAGE.replace("SCRIPT", "page.mjs"));
// Browsers ask for it, and Vite's server would answer that it is not there.
write(source, "favicon.ico", "");
write(source, "errors-only.mjs", `export * from "${PACKAGE}/errors";\n`);

const query = `?${new URLSearchParams(loadingQuery)}`;
const report = new Report();
for (const bundler of BUNDLERS) {
  await report.run(`${title(bundler)}, a program for Node`, async () => {
    const output = fresh(bundler, "node");
    await bundler.bundle({ source, entry: "program.mjs", output, target: "node" });
    return resultsOf(process.execPath, ["--expose-gc", "main.mjs", ...loading], output);
  });
  await report.run(`${title(bundler)}, only the errors`, async () => {
    const output = fresh(bundler, "errors");
    await bundler.bundle({ source, entry: "errors-only.mjs", output, target: "browser" });
    return [await leavesTheModuleOut(output)];
  });
}
await report.run(`${title(parcel)} by default, every entry`, async () => {
  const output = fresh(parcel, "entries");
  await parcel.bundleProgram({ source, entry: "entries.mjs", output });
  const { default: found } = await import(join(output, "main.mjs"));
  const { default: wanted } = await import(join(source, "entries.mjs"));
  const { default: vectors } = await import(join(source, "suite/v1.mjs"));
  return [...named(wanted, found), judged(found[""] ?? found["."], vectors)];
});
await onChromium();
await onWorkerd();
report.end();

async function onChromium() {
  const program = programs.chromium();
  if (program === undefined) {
    report.missing(
      "bundles in Chromium",
      "neither chromium nor google-chrome is in PATH; install one of them",
    );
    return;
  }
  const browserTitle = `in Chromium ${programs.version(program)}`;
  await withChromium(program, async (browser) => {
    for (const bundler of BUNDLERS) {
      await report.run(
        `${title(bundler)}, a page ${browserTitle} under ${STRICT_POLICY}`,
        async () => {
          const output = fresh(bundler, "page");
          if (bundler === vite) {
            await vite.bundlePage({ source, output });
          } else {
            await bundler.bundle({ source, entry: "page.mjs", output, target: "browser" });
            write(output, "index.html", PAGE.replace("SCRIPT", "main.mjs"));
          }
          return withServer(output, { policy: STRICT_POLICY }, (url) =>
            resultsOfPage(browser, `${url}/${query}`),
          );
        },
      );
    }
    await report.run(`${title(vite)}, development server ${browserTitle}`, () =>
      vite.withDevelopmentServer(source, (url) => resultsOfPage(browser, `${url}/${query}`)),
    );
  });
}

async function onWorkerd() {
  const program = programs.workerd();
  if (program === undefined) {
    report.missing(
      "a bundled Worker",
      "npm has no workerd for this machine; run `npm ci` in verifier-wasm/npm/test",
    );
    return;
  }
  const output = fresh(esbuild, "worker");
  await esbuild.bundleWorker({ source, entry: "worker.mjs", output });
  for (const date of ["2025-05-31", programs.version(program)]) {
    await report.run(`${title(esbuild)}, a Worker of ${date}`, () =>
      withWorker({ program, folder: output, main: "main.mjs", date }, (url) =>
        resultsOfWorker(`${url}/${query}`),
      ),
    );
  }
}

/**
 * Whoever only catches errors does not pay for the module,
 * which begins with `aagbhdgn` in its letters.
 */
async function leavesTheModuleOut(output) {
  const name = "a program that imports ./errors has the errors and no module";
  const text = readFileSync(join(output, "main.mjs"), "utf8");
  const files = readdirSync(output);
  const errors = await import(join(output, "main.mjs"));
  if (
    /aagbhdgn|WebAssembly\.(Module|Instance)/.test(text) ||
    files.some((file) => file.endsWith(".wasm"))
  ) {
    return { name, error: `the module is in ${files.join(", ")}, ${text.length} characters` };
  }
  const classes = Object.values(errors).filter((value) => value?.prototype instanceof Error);
  return classes.length > 5 ? { name } : { name, error: `only ${Object.keys(errors).join(", ")}` };
}

/** Whether what every entry exports is there, by its names. */
function named(wanted, found) {
  return Object.entries(wanted).map(([entry, exported]) => {
    const name = `"${entry}" exports what it does without a bundler`;
    const [names, expected] = [found[entry] ?? {}, exported].map((one) =>
      Object.keys(one).toSorted(),
    );
    return names.join() === expected.join() ? { name } : { name, error: names.join() };
  });
}

/** Whether its module judges the activations of v1, which do not expire, as the vectors say. */
function judged({ createVerifier }, { groups }) {
  const name = "the module judges what it is given";
  const [{ key, tests }] = groups.filter(({ action }) => action === "activate");
  const verifier = createVerifier({ keys: key });
  const wrong = tests.filter(
    ({ token, code, result }) =>
      code === undefined &&
      verifier.tryVerify(token, { action: "activate" }).ok !== (result === "valid"),
  );
  const error = wrong.map(({ tcId }) => tcId).join();
  return wrong.length === 0 && tests.length > 9 ? { name } : { name, error };
}

function title({ name, version }) {
  return `${name} ${version}`;
}

function fresh(bundler, kind) {
  const output = join(folder, `${bundler.name}-${kind}`);
  mkdirSync(output);
  return output;
}
