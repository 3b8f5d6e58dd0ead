// The whole surface with hostile arguments, in the window of a browser.

import entries from "./entries.mjs";
import { runSurface } from "./suite/surface_run.mjs";

async function results() {
  const module = await WebAssembly.compileStreaming(fetch(MODULE_URL));
  const publicModule = await WebAssembly.compileStreaming(fetch(PUBLIC_URL));
  return runSurface({ entries, module, publicModule, inWindow: true });
}

results().then(
  (found) => (globalThis.results = found),
  (error) => (globalThis.results = [{ name: "the suite", error: String(error?.stack ?? error) }]),
);
