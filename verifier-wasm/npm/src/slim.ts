/**
 * The verifier without the WebAssembly module, for those who load `mailroom-verifier/verifier.wasm` themselves.
 *
 * @module
 */

import { startLoaded } from "./start.js";
import { inspectToken, type UnverifiedToken } from "./token.js";
import type { VerifierOptions } from "./types.js";
import { makeVerifier, type Verifier } from "./verifier.js";

export type { UnverifiedToken, VerifiedToken } from "./token.js";
export type * from "./types.js";
export type { Verifier } from "./verifier.js";

/** What `mailroom-verifier` exports, on a module that the caller loaded. */
export interface VerifierModule {
  createVerifier(options: VerifierOptions): Verifier;
  inspect(token: string): UnverifiedToken;
}

/**
 * Puts the verifier on the module in `mailroom-verifier/verifier.wasm`.
 *
 * @throws InvalidArgumentError when it is another module
 * @example
 * const bytes = await readFile(fileURLToPath(import.meta.resolve("mailroom-verifier/verifier.wasm")));
 * const { createVerifier } = instantiate(await WebAssembly.compile(bytes));
 */
export function instantiate(source: WebAssembly.Module | WebAssembly.Instance): VerifierModule {
  const engine = startLoaded(source);
  return Object.freeze<VerifierModule>({
    createVerifier: (options) => makeVerifier(engine, options),
    inspect: (token) => inspectToken(engine, token),
  });
}
