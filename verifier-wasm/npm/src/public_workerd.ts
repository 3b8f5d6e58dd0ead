/**
 * The same as the inlined entry for public keys, whose declarations stand for both, for workerd.
 *
 * @module
 */

import { atCaller } from "./caller.js";
import { PUBLIC_KEY } from "./engine.js";
import { makeGuard } from "./guard.js";
import type { GuardOptions } from "./guard_options.js";
import { textOf } from "./options.js";
import module from "./public.wasm";
import type { PublicVerifier, PublicVerifierOptions } from "./public_verifier.js";
import { startNow } from "./start.js";
import { decodeToken } from "./token.js";
import type { Nonce } from "./types.js";
import { makePublicVerifier } from "./verifier_factory.js";
import { readPublicOptions } from "./verifier_options.js";

const started = startNow(PUBLIC_KEY, () => module);

export function createVerifier<const Further extends string = never>(
  options: PublicVerifierOptions<Further>,
): PublicVerifier<Further> {
  return atCaller(createVerifier, () =>
    makePublicVerifier(readPublicOptions(started().engine, options)),
  );
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
