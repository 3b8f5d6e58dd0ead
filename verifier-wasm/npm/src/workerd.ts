/**
 * The same as the inlined entry, whose declarations stand for both, for workerd, where some
 * configurations forbid to compile bytes, and a `.wasm` file is imported as a module.
 *
 * @module
 */

import { atCaller } from "./caller.js";
import { SHARED_KEY } from "./engine.js";
import { makeGuard } from "./guard.js";
import type { GuardOptions } from "./guard_options.js";
import { type MemoryStoreOptions, makeMemoryStore } from "./memory_store.js";
import { textOf } from "./options.js";
import { startNow } from "./start.js";
import { decodeToken } from "./token.js";
import type { Nonce, VerifierOptions } from "./types.js";
import module from "./verifier.wasm";
import { makeVerifier } from "./verifier_factory.js";
import { readSharedOptions } from "./verifier_options.js";

const started = startNow(SHARED_KEY, () => module);

export function createVerifier(options: VerifierOptions) {
  return atCaller(createVerifier, () => makeVerifier(readSharedOptions(started().engine, options)));
}

export function decodeUnverified(token: string) {
  return decodeToken(started().engine, token);
}

export function bindingOf(nonce: Nonce) {
  return started().engine.bind(textOf(nonce));
}

export function createGuard(options: GuardOptions) {
  return atCaller(createGuard, () => makeGuard(options));
}

export function createMemoryStore(options: MemoryStoreOptions) {
  return makeMemoryStore(started().module, options);
}
