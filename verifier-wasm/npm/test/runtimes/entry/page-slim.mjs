// The suite on `./slim`, whose module the page fetches.

import { memories } from "./suite/memories.mjs";
import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as slimEntry from "mailroom-verifier/slim";
import { run } from "./suite/index.mjs";
import vectors from "./suite/v1.mjs";

async function results() {
  const module = await WebAssembly.compileStreaming(fetch(MODULE_URL));
  const others = { "mailroom-verifier": verifierPackage };
  const topics = new URL(location.href).searchParams.get("topics") ?? undefined;
  return run({
    verifierPackage: slimEntry.instantiate(module),
    ...{ errors, slimEntry, module, vectors, memories, others, topics, inWindow: true },
  });
}

results().then(
  (found) => (globalThis.results = found),
  (error) => (globalThis.results = [{ name: "the suite", error: String(error?.stack ?? error) }]),
);
