/**
 * The same as the inlined entry, whose declarations stand for both, for workerd, where some
 * configurations forbid to compile bytes, and a `.wasm` file is imported as a module.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import { textOf } from "../arguments/options.js";
import { makeGuard } from "../guard/guard.js";
import type { GuardOptions } from "../guard/options.js";
import { type MemoryStoreOptions, makeMemoryStore } from "../stores/memory_store.js";
import { decodeToken } from "../token/token.js";
import type { Nonce, VerifierOptions } from "../token/types.js";
import { makeVerifier } from "../verifier/factory.js";
import { readSharedOptions } from "../verifier/on_module.js";
import { SHARED_KEY } from "../wasm/engine.js";
import { startNow } from "../wasm/start.js";
import module from "./verifier.wasm";

const started = startNow(SHARED_KEY, () => module);

export function createVerifier(options: VerifierOptions) {
  return atCaller(createVerifier, () => makeVerifier(readSharedOptions(started(), options)));
}

export function decodeUnverified(token: string) {
  return decodeToken(started(), token);
}

export function bindingOf(nonce: Nonce) {
  return started().bind(textOf(nonce));
}

export function createGuard(options: GuardOptions) {
  return atCaller(createGuard, () => makeGuard(options));
}

export function createMemoryStore(options: MemoryStoreOptions) {
  return makeMemoryStore(options);
}
