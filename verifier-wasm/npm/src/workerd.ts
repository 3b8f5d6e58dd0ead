/**
 * The same as the inlined entry for workerd, where some configurations forbid to compile bytes, and a `.wasm` file is
 * imported as a module.
 *
 * @module
 */

import { startNow } from "./start.js";
import { inspectToken, type UnverifiedToken } from "./token.js";
import type { VerifierOptions } from "./types.js";
import { makeVerifier, type Verifier } from "./verifier.js";
import module from "./verifier.wasm";

export type { UnverifiedToken, VerifiedToken } from "./token.js";
export type * from "./types.js";
export type { Verifier } from "./verifier.js";

const engine = startNow(() => module);

/**
 * Makes a verifier of the shared key, or of a ring of keys. Make it once, and use it for every token.
 *
 * @throws KeyInvalidError, InvalidArgumentError, SecretInBrowserError, WasmUnavailableError
 * @example
 * const verifier = createVerifier({ keys: process.env["MAILROOM_SECRET_KEY"] ?? "" });
 * const token = verifier.verify(url.searchParams.get("token") ?? "", { action: "activate" });
 */
export function createVerifier(options: VerifierOptions): Verifier {
  return makeVerifier(engine(), options);
}

/**
 * Shows what a token consists of, without a key and **without any proof**: anybody can make a token that says anything.
 *
 * @throws TokenMalformedError, InvalidArgumentError
 */
export function inspect(token: string): UnverifiedToken {
  return inspectToken(engine(), token);
}
