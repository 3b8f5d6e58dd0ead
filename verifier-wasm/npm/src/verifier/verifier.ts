import type { Verification, VerifiedToken } from "../token/token.js";
import type {
  Action,
  ExpectedActivation,
  ExpectedRecovery,
  LinkExpectation,
  TriedRecovery,
} from "../token/types.js";
import type { LinkVerification, VerifiedLink } from "./link.js";

/** Verifies tokens with the keys that it was made with. Its methods need no `this`. */
export interface Verifier<Further extends string = never> {
  /**
   * Verifies the token of an activation or of another action without a code: proves that a key of
   * the ring signed it for this action, and of v2 that it is still valid. It may have been used
   * before: a guard checks that. It takes no code: recoveries are for `guard.redeem`,
   * which counts the attempts.
   *
   * @throws VerificationError when the token is not good
   * @throws InvalidArgumentError when the call is wrong,
   * for instance because it names another action
   * @example
   * const token = verifier.verify(url.searchParams.get("token") ?? "", { action: "activate" });
   */
  verify(token: string, expected: ExpectedActivation<Further>): VerifiedToken<Action | Further>;

  /**
   * The same without an exception for any value that the visitor sent as a token: one that is no
   * string is malformed.
   *
   * @throws InvalidArgumentError when the call is wrong,
   * for instance because it names another action
   * @example
   * const result = verifier.tryVerify(token, { action: "activate" });
   * if (!result.ok) return new Response(result.reason, { status: 403 });
   */
  tryVerify(token: unknown, expected: ExpectedActivation<Further>): Verification<Action | Further>;

  /**
   * Verifies a recovery and compares its code **without counting the attempts**: with enough calls
   * each of the 100,000 codes is found. Count them yourself, or use `guard.redeem`, which does.
   *
   * @throws VerificationError when the token or the code is not good
   * @throws InvalidArgumentError when the call is wrong
   */
  verifyWithUncountedCode(
    token: string,
    expected: ExpectedRecovery<Further>,
  ): VerifiedToken<Action | Further>;

  /**
   * The same, **without counting the attempts** either, and without an exception for any value that
   * the visitor sent as a token or a code: one that is no string is malformed.
   *
   * @throws InvalidArgumentError when the call is wrong
   */
  tryVerifyWithUncountedCode(
    token: unknown,
    expected: TriedRecovery<Further>,
  ): Verification<Action | Further>;

  /**
   * Proves that a key of the ring signed this link for this action and that it is still valid,
   * before a code is typed. A v1 token cannot be judged so.
   *
   * @throws VerificationError when the link is not good
   * @throws InvalidArgumentError when the call is wrong
   * @example
   * const link = verifier.verifyLink(token, { action: "recover" });
   */
  verifyLink(token: string, expected: LinkExpectation<Further>): VerifiedLink<Action | Further>;

  /**
   * The same without an exception for any value that the visitor sent as a link: one that is no
   * string is malformed.
   *
   * @throws InvalidArgumentError when the call is wrong
   */
  tryVerifyLink(
    token: unknown,
    expected: LinkExpectation<Further>,
  ): LinkVerification<Action | Further>;

  /** By how many seconds this verifier's clock may be ahead of the database's. */
  readonly clockTolerance: number;
}
