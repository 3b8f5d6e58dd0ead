// The options of verifiers on a module.

import type { Engine } from "../wasm/engine.js";
import type { Parts, PublicParts } from "./factory.js";
import { demandSafety } from "./in_browser.js";
import { invalid, readOptions } from "./options.js";
import { ringOf } from "./ring.js";

/** The options of a verifier of shared keys. */
export function readSharedOptions(engine: Engine, options: unknown): Parts {
  const prepare = (key: string | Uint8Array) => engine.prepare(key);
  const told = readOptions(options, "dangerouslyAllowSecretInBrowser", [1, 2], prepare, shapeOf);
  demandSafety(told.own);
  return { ...told, engine, ring: ringOf(told.keys) };
}

/** The options of a verifier of public keys. */
export function readPublicOptions(engine: Engine, options: unknown): PublicParts {
  const prepare = (key: string | Uint8Array) => engine.prepare(key);
  const told = readOptions(options, "signatures", [3], prepare, shapeOf);
  const { own: signatures } = told;
  if (signatures !== undefined && signatures !== "webassembly") throw invalid("signatures");
  return { ...told, engine, ring: ringOf(told.keys), usesPlatform: signatures === undefined };
}

/** What kind of value a key is, or how it begins and how long it is: nothing of the key itself. */
function shapeOf(key: unknown): string {
  if (typeof key !== "string") return key === null ? ": null" : `: ${typeof key}`;
  return `: ${/^mr[ps]k_/.exec(key) ?? ""}${key.length}`;
}
