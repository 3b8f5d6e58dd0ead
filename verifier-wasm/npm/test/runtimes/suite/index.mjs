// The suite that every runtime runs on the packed package. It is plain JavaScript without a module
// of any runtime.

import { actionOptions, actions } from "./further.mjs";
import { bound, browsers } from "./browsers.mjs";
import { endurance } from "./endurance.mjs";
import { errors } from "./errors.mjs";
import { v2, v3 } from "./formats.mjs";
import { guard } from "./guard.mjs";
import { handler } from "./handler.mjs";
import { hostileStores } from "./hostile_stores.mjs";
import { keys } from "./keys.mjs";
import { links, publicKeys } from "./links.mjs";
import { inherited } from "./inherited.mjs";
import { outcome } from "./outcome.mjs";
import { realm } from "./realm.mjs";
import { refusals } from "./refusals.mjs";
import { ring } from "./ring.mjs";
import { slim } from "./slim.mjs";
import { strictness } from "./strictness.mjs";
import { unanswered } from "./unanswered.mjs";
import vectorsOfActions from "./actions.mjs";
import vectorsOfBound from "./bound.mjs";
import vectors2 from "./v2.mjs";
import vectors3 from "./v3.mjs";
import { vectors } from "./vectors.mjs";
import { browserWindow } from "./window.mjs";

const TOPICS = {
  vectors,
  v2,
  v3,
  actions,
  actionOptions,
  bound,
  browsers,
  links,
  publicKeys,
  keys,
  strictness,
  ring,
  realm,
  errors,
  refusals,
  inherited,
  slim,
  window: browserWindow,
  guard,
  handler,
  hostileStores,
  unanswered,
  endurance,
};

/**
 * @param {object} loaded
 * @param {string} [loaded.topics] the names of those to run, with commas in between;
 * all unless it is given
 * @param {object} loaded.verifierPackage the namespace of an entry that has `createVerifier`
 * @param {object} loaded.errors the namespace of `./errors`
 * @param {object} [loaded.slimEntry] the namespace of `./slim`
 * @param {WebAssembly.Module} [loaded.module] the module in `./verifier.wasm`
 * @param {object} [loaded.publicEntry] the namespace of `./public`
 * @param {"platform" | "webassembly"} [loaded.signatures] what checks those of v3 in this runtime
 * @param {object} [loaded.handlerEntry] the namespace of `./handler`
 * @param {object} loaded.vectors what `tests/vectors/v1.json` holds
 * @param {Record<string, object>} [loaded.others] the same things loaded in another way; their
 * classes are the same
 * @param {WebAssembly.Memory[]} loaded.memories the list of `memories.mjs`,
 * imported before the package
 * @param {object} [loaded.otherRealm] the global object of another realm
 * @param {boolean} loaded.inWindow whether this is the window of a browser
 * @param {() => number | Promise<number>} [loaded.heapUsed] bytes in use after a garbage collection
 * @returns {Promise<{ name: string, error?: string }[]>}
 */
export async function run({ verifierPackage, inWindow, topics, ...loaded }) {
  const options = inWindow ? { dangerouslyAllowSecretInBrowser: true } : {};
  const all = {
    ...loaded,
    ...verifierPackage,
    vectors2,
    vectors3,
    vectorsOfActions,
    vectorsOfBound,
  };
  const subject = { ...all, errors: loaded.errors, inWindow, options };
  const results = [];
  for (const topic of topics?.split(",") ?? Object.keys(TOPICS)) {
    for (const [name, test] of TOPICS[topic](subject)) {
      results.push(await outcome(`${topic}: ${name}`, test));
    }
  }
  return results;
}
