// What a runtime runs of the tests of the whole surface: every hostile value in every place, then
// random calls, and then the shared vectors, whose verdicts are what they were.

import { v2, v3 } from "./formats.mjs";
import { outcome } from "./outcome.mjs";
import { withPatience } from "./patience.mjs";
import { surface } from "./surface.mjs";
import { samplesOfTesting } from "./surface_testing.mjs";
import { samplesOfWeb } from "./surface_web.mjs";
import vectorsOfBound from "./bound.mjs";
import listed from "./surface_list.mjs";
import { MANY, randomCalls } from "./surface_random.mjs";
import vectors1 from "./v1.mjs";
import vectors2 from "./v2.mjs";
import vectors3 from "./v3.mjs";
import { vectors } from "./vectors.mjs";

/**
 * @param {object} loaded
 * @param {Record<string, object>} loaded.entries the namespaces of the package's entries
 * @param {WebAssembly.Module} loaded.module the module in `./verifier.wasm`
 * @param {WebAssembly.Module} loaded.publicModule the one in `./public.wasm`
 * @param {boolean} loaded.inWindow whether this is the window of a browser
 * @param {number} [loaded.calls] how many random calls are made
 * @returns {Promise<{ name: string, error?: string }[]>}
 */
export function runSurface(loaded) {
  return withPatience((within) => results({ ...loaded, within }));
}

async function results({ entries, module, publicModule, inWindow, calls = MANY, within }) {
  const options = inWindow ? { dangerouslyAllowSecretInBrowser: true } : {};
  const subject = {
    entries,
    listed,
    module,
    publicModule,
    inWindow,
    calls,
    within,
    options,
    vectors2,
    vectors3,
    vectorsOfBound,
    errors: entries["./errors"],
  };
  const judged = {
    ...subject,
    ...entries["."],
    publicEntry: entries["./public"],
    vectors: vectors1,
  };
  subject.samplesOfWeb = await samplesOfWeb(subject);
  subject.samplesOfTesting = await samplesOfTesting(subject);
  // Their verifiers are made before anything hostile is.
  const verdicts = [...vectors(judged), ...v2(judged), ...v3(judged)];
  const found = [];
  for (const [name, test] of surface(subject)) found.push(await outcome(`surface: ${name}`, test));
  for (const [name, test] of randomCalls(subject))
    found.push(await outcome(`random calls: ${name}`, test));
  for (const [name, test] of verdicts)
    found.push(await outcome(`vectors, afterwards: ${name}`, test));
  return found;
}
