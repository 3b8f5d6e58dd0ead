// The whole surface with hostile arguments, on Node, Deno and Bun. The argument is how many random
// calls are made.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import entries from "./entries.mjs";
import { runSurface } from "./suite/surface_run.mjs";

const load = (name) =>
  new WebAssembly.Module(readFileSync(fileURLToPath(import.meta.resolve(name))));
const module = load("mailroom-verifier/verifier.wasm");
const publicModule = load("mailroom-verifier/public.wasm");

const calls = Number(process.argv[2]);
const loaded = { entries, module, publicModule, inWindow: false, calls };
console.log(JSON.stringify(await runSurface(loaded)));
