// The store in Durable Objects, in workerd.

import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

import { addSuite, PACKAGE, write } from "../runtimes/consumer.mjs";
import { resolveExport } from "../runtimes/exports.mjs";
import * as programs from "../runtimes/programs.mjs";
import { withWorker } from "../runtimes/workerd.mjs";
import { freshLinks } from "./links.mjs";

const FILES = ["worker.mjs", "outcomes.mjs", "redeeming.mjs", "interruptions.mjs", "network.mjs"];
const ENTRIES = [".", "./handler", "./errors", "./conformance", "./stores/durable-object"];
/** As many as the Worker uses, which cannot sign any. */
const LINKS = 100;
/** Before RPC and Durable Objects in SQL, and now. */
const DATES = ["2023-05-18", undefined];

export async function run({ report, folder, installed }) {
  const program = programs.workerd();
  if (program === undefined) {
    report.missing(
      "Durable Objects",
      "npm has no workerd for this machine; run `npm ci` in verifier-wasm/npm/test",
    );
    return;
  }
  addSuite(folder);
  for (const file of FILES) {
    // A Worker finds packages only from its root.
    const text = readFileSync(fileURLToPath(new URL(file, import.meta.url)), "utf8");
    write(folder, file, text.replaceAll('"../runtimes/suite/', '"./suite/'));
  }
  const aliases = Object.fromEntries(
    ENTRIES.map((entry) => [
      posix.join(PACKAGE, entry),
      posix.join(
        "node_modules",
        PACKAGE,
        resolveExport(installed, entry, ["workerd", "worker", "import"]),
      ),
    ]),
  );
  const version = programs.version(program);
  for (const date of DATES.map((date) => date ?? version)) {
    const objects = {
      UsedToken: "UsedToken",
      Broken: "Broken",
      Watched: "Watched",
      Other: "Other",
    };
    const worker = { program, folder, main: "worker.mjs", date, aliases, objects };
    const title = `workerd ${version} of ${date}, Durable Objects`;
    for (const topic of [
      "conformance",
      "objects",
      ...(date === version ? ["redeeming", "interruptions"] : []),
    ]) {
      await report.run(`${title}, ${topic}`, () =>
        withWorker(worker, async (url) => {
          const more = Array.from({ length: LINKS }, freshLinks);
          const body = JSON.stringify({
            topic,
            run: `${topic}-${date}`,
            links: freshLinks(),
            more,
          });
          const response = await fetch(url, {
            method: "POST",
            body,
            signal: AbortSignal.timeout(300_000),
          });
          const text = await response.text();
          if (!response.ok) {
            throw new Error(`the Worker answered ${response.status}: ${text}`);
          }
          return JSON.parse(text);
        }),
      );
    }
  }
}
