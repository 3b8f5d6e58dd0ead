import type { Verification, VerifiedToken } from "../token/token.js";
import type { Action, CommonOptions, LinkExpectation } from "../token/types.js";
import type { Verifier } from "./verifier.js";

/** A public key: `mrpk_` and 43 characters of base64url, or 32 bytes. */
export type PublicKey = string | Uint8Array;

/** What {@link createVerifier} takes. Options of other names are refused. */
export interface PublicVerifierOptions<Further extends string = never>
  extends CommonOptions<"v3", Further> {
  /**
   * The public key, or a ring of them: the current one first, then earlier and upcoming ones. A
   * function is called at the first use.
   */
  readonly keys:
    | PublicKey
    | readonly PublicKey[]
    | (() => PublicKey | readonly PublicKey[] | undefined);
  /**
   * `"webassembly"`: the module of this package checks all signatures, even where the platform has
   * an Ed25519 of its own.
   *
   * @default the platform's, after 256 tokens, where there is a synchronous one (`node:crypto`)
   * that proves to be as strict as the module
   */
  readonly signatures?: "webassembly" | undefined;
}

/**
 * Verifies tokens of v3 with public keys. Its methods need no `this`.
 *
 * Nothing that a public key can check covers the code of a recovery, which the database compares.
 */
export interface PublicVerifier<Further extends string = never>
  extends Pick<Verifier<Further>, "verifyLink" | "tryVerifyLink" | "clockTolerance"> {
  /**
   * What checks signatures: the platform's own Ed25519, or the module of this package. The verdicts
   * are the same. To read it looks for the platform's.
   */
  readonly signatures: "platform" | "webassembly";

  /**
   * As `verifyLink`, but returns a token, and refuses a code and a link that is bound
   * to another browser.
   */
  verify(token: string, expected: LinkExpectation<Further>): VerifiedToken<Action | Further>;

  /**
   * As `tryVerifyLink`, but returns a token, and refuses a code and a link that is bound
   * to another browser.
   */
  tryVerify(token: unknown, expected: LinkExpectation<Further>): Verification<Action | Further>;
}
