// Serves a Worker with databases of D1 and Durable Objects by miniflare: reads which from the first
// line of its input, prints the address, and ends with the input.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Miniflare } from "miniflare";

const lines = createInterface({ input: process.stdin });
const ended = new Promise((resolve) => lines.once("close", resolve));
const [line] = await new Promise((resolve) => lines.once("line", (...given) => resolve(given)));
const { folder, modules, databases, objects, flags, bindings } = JSON.parse(line);
const miniflare = new Miniflare({
  host: "127.0.0.1",
  port: 0,
  modulesRoot: folder,
  modules: modules.map((name) => ({
    type: name.endsWith(".wasm") ? "CompiledWasm" : "ESModule",
    path: join(folder, name),
    contents: readFileSync(join(folder, name)),
  })),
  compatibilityDate: "2026-07-01",
  compatibilityFlags: flags,
  bindings,
  d1Databases: databases,
  durableObjects: objects,
});
console.log(String(await miniflare.ready));
await ended;
await miniflare.dispose();
