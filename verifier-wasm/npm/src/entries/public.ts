/**
 * Verifies the links that activate an account or recover a password with a public key: in browsers
 * and wherever else no secret belongs.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import { textOf } from "../arguments/options.js";
import { type Guard, makeGuard } from "../guard/guard.js";
import type { GuardOptions } from "../guard/options.js";
import { decodeToken, type UnverifiedToken } from "../token/token.js";
import type { Bytes, Nonce } from "../token/types.js";
import { makePublicVerifier } from "../verifier/factory.js";
import { readPublicOptions } from "../verifier/on_module.js";
import type { PublicVerifier, PublicVerifierOptions } from "../verifier/public_verifier.js";
import wasm from "../wasm/generated/public_wasm.js";
import { compile, PUBLIC_KEY, startNow } from "../wasm/start.js";

export type { RefusedRedemption } from "../errors/denial.js";
export type {
  Guard,
  Redeemed,
  RedeemedActivation,
  Redemption,
  TriedRedemption,
} from "../guard/guard.js";
export type { CodeCheck, GuardedVerifier, GuardOptions } from "../guard/options.js";
export type { TokenStore } from "../stores/token_store.js";
export type { UnverifiedToken, Verification, Verified, VerifiedToken } from "../token/token.js";
export type {
  Action,
  Browser,
  Bytes,
  CommonOptions,
  ExpectedActivation,
  ExpectedRecovery,
  FurtherActions,
  LinkExpectation,
  Nonce,
  Refused,
  TriedRecovery,
  Visitor,
} from "../token/types.js";
export type { LinkVerification, VerifiedLink, VerifiedLinkResult } from "../verifier/link.js";
export type {
  PublicKey,
  PublicVerifier,
  PublicVerifierOptions,
} from "../verifier/public_verifier.js";

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
  return atCaller(createVerifier, () => makePublicVerifier(readPublicOptions(started(), options)));
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
