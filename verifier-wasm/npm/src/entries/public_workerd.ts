/**
 * The same as the inlined entry for public keys, whose declarations stand for both, for workerd.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import { textOf } from "../arguments/options.js";
import { makeGuard } from "../guard/guard.js";
import type { GuardOptions } from "../guard/options.js";
import { decodeToken } from "../token/token.js";
import type { Nonce } from "../token/types.js";
import { makePublicVerifier } from "../verifier/factory.js";
import { readPublicOptions } from "../verifier/on_module.js";
import type { PublicVerifier, PublicVerifierOptions } from "../verifier/public_verifier.js";
import { PUBLIC_KEY } from "../wasm/engine.js";
import { startNow } from "../wasm/start.js";
import module from "./public.wasm";

const started = startNow(PUBLIC_KEY, () => module);

export function createVerifier<const Further extends string = never>(
  options: PublicVerifierOptions<Further>,
): PublicVerifier<Further> {
  return atCaller(createVerifier, () => makePublicVerifier(readPublicOptions(started(), options)));
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
