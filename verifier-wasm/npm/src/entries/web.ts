/**
 * Verifies the links that activate an account or recover a password on the platform's own
 * cryptography (WebCrypto), asynchronously: for pages, which need no WebAssembly for it.
 *
 * @module
 */

import type { Bytes, Nonce, VerifierOptions } from "../token/types.js";
import { demandSafety } from "../verifier/in_browser.js";
import { readOptions } from "../verifier/options.js";
import { bindingOfNonce, makeSharedWebVerifier, makeWebVerifier, textOf } from "../web/factory.js";
import { publicKeyOf, publicKeys } from "../web/public_keys.js";
import { SHARED_KEYS, sharedKeyOf } from "../web/shared_keys.js";
import type { SharedWebVerifier, WebVerifier, WebVerifierOptions } from "../web/verifier.js";

export type { Verification, Verified, VerifiedToken } from "../token/token.js";
export type * from "../token/types.js";
export type { ProvenLink } from "../verifier/link.js";
export type { PublicKey } from "../verifier/public_verifier.js";
export type { VerifiedWebLink, WebLink, WebLinkVerification } from "../web/link.js";
export type {
  SharedWebVerifier,
  WebFallback,
  WebVerifier,
  WebVerifierOptions,
} from "../web/verifier.js";

/**
 * Makes a verifier of the public key, or of a ring of keys: for tokens of v3.
 * Make it once, and use it for every token.
 *
 * @throws KeyInvalidError, InvalidArgumentError
 * @example
 * const verifier = createVerifier({ keys: "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg" });
 * const link = await verifier.tryVerifyLink(token, { action: "recover" });
 */
export function createVerifier<const Further extends string = never>(
  options: WebVerifierOptions<Further>,
): WebVerifier<Further> {
  const told = readOptions(options, "fallback", [3], publicKeyOf);
  return makeWebVerifier(told, publicKeys(told.own));
}

/**
 * Makes a verifier of the shared key, or of a ring of keys: for tokens of v1 and v2, where a secret
 * may be kept, which is in no page.
 *
 * @throws KeyInvalidError, InvalidArgumentError, SecretInBrowserError
 * @example
 * const verifier = createSharedVerifier({ keys: process.env["MAILROOM_SECRET_KEY"] ?? "" });
 * const token = await verifier.verify(url.searchParams.get("token") ?? "", { action: "activate" });
 */
export function createSharedVerifier<const Further extends string = never>(
  options: VerifierOptions<Further>,
): SharedWebVerifier<Further> {
  const own = "dangerouslyAllowSecretInBrowser";
  const told = readOptions(options, own, [1, 2], sharedKeyOf);
  demandSafety(told.own);
  return makeSharedWebVerifier(told, SHARED_KEYS);
}

/**
 * What the database keeps of the browser that asks for a link, to bind the link to it: 16 bytes.
 * Nothing for a value that is no nonce, such as a cookie that is not there yet: set it then.
 *
 * @throws PlatformUnavailableError
 * @example
 * const binding = await bindingOf(cookie);
 */
export function bindingOf(nonce: Nonce): Promise<Bytes | undefined> {
  return bindingOfNonce(textOf(nonce));
}
