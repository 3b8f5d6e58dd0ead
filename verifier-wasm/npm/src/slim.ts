/**
 * The verifiers without their WebAssembly modules, for those who load
 * `mailroom-verifier/verifier.wasm` or `mailroom-verifier/public.wasm` themselves.
 *
 * @module
 */

import { PUBLIC_KEY, SHARED_KEY } from "./engine.js";
import { InvalidArgumentError } from "./errors.js";
import { type Guard, makeGuard } from "./guard.js";
import type { GuardOptions } from "./guard_options.js";
import { type MemoryStore, type MemoryStoreOptions, makeMemoryStore } from "./memory_store.js";
import { textOf } from "./options.js";
import type { PublicVerifier, PublicVerifierOptions } from "./public_verifier.js";
import { startLoaded } from "./start.js";
import { decodeToken, type UnverifiedToken } from "./token.js";
import type { Bytes, Nonce, VerifierOptions } from "./types.js";
import type { Verifier } from "./verifier.js";
import { makePublicVerifier, makeVerifier } from "./verifier_factory.js";
import { readPublicOptions, readSharedOptions } from "./verifier_options.js";

export type { RefusedRedemption } from "./denial.js";
export type { Guard, Redeemed, RedeemedActivation, Redemption, TriedRedemption } from "./guard.js";
export type { CodeCheck, GuardedVerifier, GuardOptions } from "./guard_options.js";
export type { LinkVerification, VerifiedLink, VerifiedLinkResult } from "./link.js";
export type { MemoryStore, MemoryStoreOptions } from "./memory_store.js";
export type { PublicKey, PublicVerifier, PublicVerifierOptions } from "./public_verifier.js";
export type { UnverifiedToken, Verification, Verified, VerifiedToken } from "./token.js";
export type { TokenStore } from "./token_store.js";
export type * from "./types.js";
export type { Verifier } from "./verifier.js";

/** What `mailroom-verifier` exports, on a module that the caller loaded. */
export interface VerifierModule {
  createVerifier<const Further extends string = never>(
    options: VerifierOptions<Further>,
  ): Verifier<Further>;
  decodeUnverified(token: string): UnverifiedToken;
  bindingOf(nonce: Nonce): Bytes | undefined;
  createGuard<Further extends string = never>(options: GuardOptions<Further>): Guard<Further>;
  /** Only if the caller passed a module: a store needs an instance of its own. */
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
  const { engine, module } = startLoaded(SHARED_KEY, source);
  return Object.freeze<VerifierModule>({
    createVerifier: (options) => makeVerifier(readSharedOptions(engine, options)),
    decodeUnverified: (token) => decodeToken(engine, token),
    bindingOf: (nonce) => engine.bind(textOf(nonce)),
    createGuard: (options) => makeGuard(options),
    createMemoryStore(options) {
      if (!module) {
        throw new InvalidArgumentError(
          "a store needs an instance of its own: give instantiate the module instead",
        );
      }
      return makeMemoryStore(module, options);
    },
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
  const { engine } = startLoaded(PUBLIC_KEY, source);
  return Object.freeze<PublicVerifierModule>({
    createVerifier: (options) => makePublicVerifier(readPublicOptions(engine, options)),
    decodeUnverified: (token) => decodeToken(engine, token),
    bindingOf: (nonce) => engine.bind(textOf(nonce)),
    createGuard: (options) => makeGuard(options),
  });
}
