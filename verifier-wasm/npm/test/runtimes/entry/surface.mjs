// The whole surface with hostile arguments, on Node, Deno and Bun.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import entries from "./entries.mjs";
import { runSurface } from "./suite/surface_run.mjs";

const load = (name) =>
  new WebAssembly.Module(readFileSync(fileURLToPath(import.meta.resolve(name))));
const module = load("mailroom-verifier/verifier.wasm");
const publicModule = load("mailroom-verifier/public.wasm");

console.log(JSON.stringify(await runSurface({ entries, module, publicModule, inWindow: false })));
