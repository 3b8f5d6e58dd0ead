/**
 * Verifies the links that activate an account or recover a password with a shared key, and lets
 * each through once, on every JavaScript runtime.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
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
import { makeVerifier } from "../verifier/factory.js";
import { readSharedOptions } from "../verifier/on_module.js";
import type { Verifier } from "../verifier/verifier.js";
import wasm from "../wasm/generated/wasm.js";
import { compile, SHARED_KEY, startNow } from "../wasm/start.js";

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
export type { Verifier } from "../verifier/verifier.js";

const started = startNow(SHARED_KEY, () => compile(wasm));

/**
 * Makes a verifier of the shared key, or of a ring of keys.
 * Make it once, and use it for every token.
 *
 * @throws KeyInvalidError, InvalidArgumentError, SecretInBrowserError, WasmUnavailableError
 * @example
 * const verifier = createVerifier({ keys: process.env["MAILROOM_SECRET_KEY"] ?? "" });
 * const token = verifier.verify(url.searchParams.get("token") ?? "", { action: "activate" });
 */
export function createVerifier<const Further extends string = never>(
  options: VerifierOptions<Further>,
): Verifier<Further> {
  return atCaller(createVerifier, () => makeVerifier(readSharedOptions(started(), options)));
}

/**
 * Shows what a token consists of, without a key and **without any proof**: anybody can make a token
 * that says anything.
 *
 * @throws TokenMalformedError
 */
export function decodeUnverified(token: string): UnverifiedToken {
  return decodeToken(started(), token);
}

/**
 * What the database keeps of the browser that asks for a link, to bind the link to it: 16 bytes.
 * Nothing for a value that is no nonce, such as a cookie that is not there yet: set it then.
 *
 * @example
 * const binding = bindingOf(cookie);
 */
export function bindingOf(nonce: Nonce): Bytes | undefined {
  return started().bind(textOf(nonce));
}

/**
 * Puts a verifier and a store of used tokens together to a guard, which lets a link through once
 * among all who share the store. It keeps no state, so it can be made for each request.
 *
 * @throws InvalidArgumentError
 * @example
 * const guard = createGuard({ verifier, store });
 * const redeemed = await guard.tryRedeem(form.get("token"), { action: "activate" });
 */
export function createGuard<Further extends string = never>(
  options: GuardOptions<Further>,
): Guard<Further> {
  return atCaller(createGuard, () => makeGuard(options));
}

/**
 * Makes a store of used tokens in the memory of this thread. **One thread only**: a worker thread,
 * another process of a cluster, a restart and a second isolate of the same Worker know nothing of
 * what it remembers, so a link works once in each.
 *
 * @throws InvalidArgumentError
 * @example
 * const store = createMemoryStore({ capacity: 100_000 }); // 5.4 MB
 */
export function createMemoryStore(options: MemoryStoreOptions): MemoryStore {
  return makeMemoryStore(options);
}
