/**
 * Verifies the links that activate an account or recover a password, on every JavaScript runtime.
 *
 * @module
 */

import wasm from "./generated/wasm.js";
import { startNow } from "./start.js";
import { inspectToken, type UnverifiedToken } from "./token.js";
import type { VerifierOptions } from "./types.js";
import { makeVerifier, type Verifier } from "./verifier.js";

export type { UnverifiedToken, VerifiedToken } from "./token.js";
export type * from "./types.js";
export type { Verifier } from "./verifier.js";

const A = 0x61;

/** Half a byte is a letter from a to p: gzip finds in it what it finds in the bytes, which base64 hides from it. */
const engine = startNow(() => {
  const bytes = new Uint8Array(wasm.length / 2);
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = ((wasm.charCodeAt(2 * at) - A) << 4) | (wasm.charCodeAt(2 * at + 1) - A);
  }
  return new WebAssembly.Module(bytes);
});

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
