/**
 * Verifies the links that activate an account or recover a password with a public key: in browsers
 * and wherever else no secret belongs.
 *
 * @module
 */

import { atCaller } from "./caller.js";
import wasm from "./generated/public_wasm.js";
import { type Guard, makeGuard } from "./guard.js";
import type { GuardOptions } from "./guard_options.js";
import { textOf } from "./options.js";
import type { PublicVerifier, PublicVerifierOptions } from "./public_verifier.js";
import { compile, PUBLIC_KEY, startNow } from "./start.js";
import { decodeToken, type UnverifiedToken } from "./token.js";
import type { Bytes, Nonce } from "./types.js";
import { makePublicVerifier } from "./verifier_factory.js";
import { readPublicOptions } from "./verifier_options.js";

export type { RefusedRedemption } from "./denial.js";
export type { Guard, Redeemed, RedeemedActivation, Redemption, TriedRedemption } from "./guard.js";
export type { CodeCheck, GuardedVerifier, GuardOptions } from "./guard_options.js";
export type { LinkVerification, VerifiedLink, VerifiedLinkResult } from "./link.js";
export type { PublicKey, PublicVerifier, PublicVerifierOptions } from "./public_verifier.js";
export type { UnverifiedToken, Verification, Verified, VerifiedToken } from "./token.js";
export type { TokenStore } from "./token_store.js";
export type {
  Action,
  Browser,
  Bytes,
  CommonOptions,
  ExpectedActivation,
  ExpectedRecovery,
  FurtherAction,
  LinkExpectation,
  Nonce,
  Refused,
  TriedRecovery,
  Visitor,
} from "./types.js";

const started = startNow(PUBLIC_KEY, () => compile(wasm));

/**
 * Makes a verifier of the public key, or of a ring of keys.
 * Make it once, and use it for every token.
 *
 * @throws KeyInvalidError, InvalidArgumentError, WasmUnavailableError
 * @example
 * const verifier = createVerifier({ keys: "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg" });
 * const link = verifier.tryVerifyLink(token, { action: "recover" });
 */
export function createVerifier<const Further extends string = never>(
  options: PublicVerifierOptions<Further>,
): PublicVerifier<Further> {
  return atCaller(createVerifier, () =>
    makePublicVerifier(readPublicOptions(started().engine, options)),
  );
}

/**
 * Shows what a token consists of, without a key and **without any proof**: anybody can make a token
 * that says anything.
 *
 * @throws TokenMalformedError
 */
export function decodeUnverified(token: string): UnverifiedToken {
  return decodeToken(started().engine, token);
}

/**
 * What the database keeps of the browser that asks for a link, to bind the link to it: 16 bytes.
 * Nothing for a value that is no nonce, such as a cookie that is not there yet: set it then.
 *
 * @example
 * const binding = bindingOf(cookie);
 */
export function bindingOf(nonce: Nonce): Bytes | undefined {
  return started().engine.bind(textOf(nonce));
}

/**
 * Puts a verifier and a store of used tokens together to a guard, which lets a link through once
 * among all who share the store. It keeps no state, so it can be made for each request. Recoveries
 * need the option `checkCode`.
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
