import type { Verification, VerifiedToken } from "../token/token.js";
import type {
  Action,
  ExpectedActivation,
  ExpectedRecovery,
  FurtherActions,
  LinkExpectation,
  TriedRecovery,
} from "../token/types.js";
import type { PublicVerifierOptions } from "../verifier/public_verifier.js";
import type { WebLink, WebLinkVerification } from "./link.js";

/** What {@link createVerifier} takes. Options of other names are refused. */
export interface WebVerifierOptions<Further extends string = never>
  extends Omit<PublicVerifierOptions<Further>, "signatures"> {
  /**
   * Loads what judges signatures where the platform has no Ed25519, or one that is not strict:
   * `mailroom-verifier/public`, which needs `'wasm-unsafe-eval'` under a Content-Security-Policy.
   *
   * @default nothing: there every token is refused with `ERR_PLATFORM_UNAVAILABLE`
   * @example
   * const fallback = () => import("mailroom-verifier/public");
   * createVerifier({ keys: "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg", fallback });
   */
  readonly fallback?: (() => PromiseLike<WebFallback>) | undefined;
}

/** What a fallback loads: `mailroom-verifier/public`. */
export interface WebFallback {
  createVerifier(options: {
    readonly keys: Uint8Array;
    readonly actions?: FurtherActions<string> | undefined;
    readonly clock: () => number;
  }): {
    /** Only verifiers of public keys have it. */
    readonly signatures: "platform" | "webassembly";
    tryVerifyLink(
      token: unknown,
      expected: { readonly action: "activate" },
    ): { readonly ok: boolean; readonly reason?: string };
  };
}

/** Verifies tokens of v3 with public keys. Its methods need no `this`. */
export interface WebVerifier<Further extends string = never> {
  /**
   * As `verifyLink`, but returns a token, and refuses a code and a link that is bound
   * to another browser.
   */
  verify(
    token: string,
    expected: LinkExpectation<Further>,
  ): Promise<VerifiedToken<Action | Further>>;

  /**
   * As `tryVerifyLink`, but returns a token, and refuses a code and a link that is bound
   * to another browser.
   */
  tryVerify(
    token: unknown,
    expected: LinkExpectation<Further>,
  ): Promise<Verification<Action | Further>>;

  /**
   * Proves that a key of the ring signed this link for this action and that it is still valid,
   * before a code is typed. A v1 token cannot be judged so.
   *
   * @throws VerificationError when the link is not good
   * @throws InvalidArgumentError when the call is wrong
   * @example
   * const link = await verifier.verifyLink(token, { action: "recover" });
   */
  verifyLink(token: string, expected: LinkExpectation<Further>): Promise<WebLink<Action | Further>>;

  /**
   * The same without an exception for any value that the visitor sent as a link: one that is no
   * string is malformed.
   *
   * @throws InvalidArgumentError when the call is wrong
   */
  tryVerifyLink(
    token: unknown,
    expected: LinkExpectation<Further>,
  ): Promise<WebLinkVerification<Action | Further>>;

  /** By how many seconds this verifier's clock may be ahead of the database's. */
  readonly clockTolerance: number;
}

/** Verifies tokens of v1 and v2 with shared keys. Its methods need no `this`. */
export interface SharedWebVerifier<Further extends string = never>
  extends Pick<WebVerifier<Further>, "verifyLink" | "tryVerifyLink" | "clockTolerance"> {
  /**
   * Verifies the token of an activation or of another action without a code. It may have been used
   * before: only a store or the database knows.
   *
   * @throws VerificationError when the token is not good
   * @throws InvalidArgumentError when the call is wrong
   */
  verify(
    token: string,
    expected: ExpectedActivation<Further>,
  ): Promise<VerifiedToken<Action | Further>>;

  /**
   * The same without an exception for any value that the visitor sent as a token: one that is no
   * string is malformed.
   *
   * @throws InvalidArgumentError when the call is wrong
   */
  tryVerify(
    token: unknown,
    expected: ExpectedActivation<Further>,
  ): Promise<Verification<Action | Further>>;

  /**
   * Verifies a recovery and compares its code **without counting the attempts**: with enough calls
   * each of the 100,000 codes is found. Count them yourself.
   *
   * @throws VerificationError when the token or the code is not good
   * @throws InvalidArgumentError when the call is wrong
   */
  verifyWithUncountedCode(
    token: string,
    expected: ExpectedRecovery<Further>,
  ): Promise<VerifiedToken<Action | Further>>;

  /**
   * The same, **without counting the attempts** either, and without an exception for any value that
   * the visitor sent as a token or a code: one that is no string is malformed.
   *
   * @throws InvalidArgumentError when the call is wrong
   */
  tryVerifyWithUncountedCode(
    token: unknown,
    expected: TriedRecovery<Further>,
  ): Promise<Verification<Action | Further>>;
}
