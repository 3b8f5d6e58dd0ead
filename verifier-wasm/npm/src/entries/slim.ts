/**
 * The verifiers without their WebAssembly modules, for those who load
 * `mailroom-verifier/verifier.wasm` or `mailroom-verifier/public.wasm` themselves.
 *
 * @module
 */

import { textOf } from "../arguments/options.js";
import { type Guard, makeGuard } from "../guard/guard.js";
import type { GuardOptions } from "../guard/options.js";
import {
  type MemoryStore,
  type MemoryStoreOptions,
  makeMemoryStore,
} from "../stores/memory_store.js";
import { decodeToken, type UnverifiedToken } from "../token/token.js";
import type { Bytes, Nonce, VerifierOptions } from "../token/types.js";
import { makePublicVerifier, makeVerifier } from "../verifier/factory.js";
import { readPublicOptions, readSharedOptions } from "../verifier/on_module.js";
import type { PublicVerifier, PublicVerifierOptions } from "../verifier/public_verifier.js";
import type { Verifier } from "../verifier/verifier.js";
import { PUBLIC_KEY, SHARED_KEY } from "../wasm/engine.js";
import { startLoaded } from "../wasm/start.js";

export type { RefusedRedemption } from "../errors/denial.js";
export type {
  Guard,
  Redeemed,
  RedeemedActivation,
  Redemption,
  TriedRedemption,
} from "../guard/guard.js";
export type { CodeCheck, GuardedVerifier, GuardOptions } from "../guard/options.js";
export type { MemoryStore, MemoryStoreOptions } from "../stores/memory_store.js";
export type { TokenStore } from "../stores/token_store.js";
export type { UnverifiedToken, Verification, Verified, VerifiedToken } from "../token/token.js";
export type * from "../token/types.js";
export type { LinkVerification, VerifiedLink, VerifiedLinkResult } from "../verifier/link.js";
export type {
  PublicKey,
  PublicVerifier,
  PublicVerifierOptions,
} from "../verifier/public_verifier.js";
export type { Verifier } from "../verifier/verifier.js";

/** What `mailroom-verifier` exports, on a module that the caller loaded. */
export interface VerifierModule {
  createVerifier<const Further extends string = never>(
    options: VerifierOptions<Further>,
  ): Verifier<Further>;
  decodeUnverified(token: string): UnverifiedToken;
  bindingOf(nonce: Nonce): Bytes | undefined;
  createGuard<Further extends string = never>(options: GuardOptions<Further>): Guard<Further>;
  createMemoryStore(options: MemoryStoreOptions): MemoryStore;
}

/** What `mailroom-verifier/public` exports, on a module that the caller loaded. */
export interface PublicVerifierModule {
  createVerifier<const Further extends string = never>(
    options: PublicVerifierOptions<Further>,
  ): PublicVerifier<Further>;
  decodeUnverified(token: string): UnverifiedToken;
  bindingOf(nonce: Nonce): Bytes | undefined;
  createGuard<Further extends string = never>(options: GuardOptions<Further>): Guard<Further>;
}

/**
 * Puts the verifier on the module in `mailroom-verifier/verifier.wasm`.
 *
 * @throws InvalidArgumentError when it is another module
 * @example
 * const address = import.meta.resolve("mailroom-verifier/verifier.wasm");
 * const bytes = await readFile(fileURLToPath(address));
 * const { createVerifier } = instantiate(await WebAssembly.compile(bytes));
 */
export function instantiate(source: WebAssembly.Module | WebAssembly.Instance): VerifierModule {
  const engine = startLoaded(SHARED_KEY, source);
  return Object.freeze<VerifierModule>({
    createVerifier: (options) => makeVerifier(readSharedOptions(engine, options)),
    decodeUnverified: (token) => decodeToken(engine, token),
    bindingOf: (nonce) => engine.bind(textOf(nonce)),
    createGuard: (options) => makeGuard(options),
    createMemoryStore: (options) => makeMemoryStore(options),
  });
}

/**
 * Puts the verifier of public keys on the module in `mailroom-verifier/public.wasm`.
 *
 * @throws InvalidArgumentError when it is another module
 * @example
 * const module = await WebAssembly.compileStreaming(fetch("/public.wasm"));
 * const { createVerifier } = instantiatePublic(module);
 */
export function instantiatePublic(
  source: WebAssembly.Module | WebAssembly.Instance,
): PublicVerifierModule {
  const engine = startLoaded(PUBLIC_KEY, source);
  return Object.freeze<PublicVerifierModule>({
    createVerifier: (options) => makePublicVerifier(readPublicOptions(engine, options)),
    decodeUnverified: (token) => decodeToken(engine, token),
    bindingOf: (nonce) => engine.bind(textOf(nonce)),
    createGuard: (options) => makeGuard(options),
  });
}
