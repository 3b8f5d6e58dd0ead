import type { Engine } from "./engine.js";
import { VerifiedLink } from "./link.js";
import { demandAction, demandCode, demandString, OF_LINK, OF_TOKEN, readExpectation } from "./options.js";
import type { KeyRing } from "./ring.js";
import type { Clock } from "./seconds.js";
import { isAboutCode, isMalformed, OK, refusal, refused, SIGNATURE } from "./status.js";
import { VerifiedToken } from "./token.js";
import type {
  ExpectedActivation,
  ExpectedRecovery,
  LinkExpectation,
  LinkVerification,
  Verification,
} from "./types.js";
import { type Version, versionOf } from "./version.js";

/** Verifies tokens with the keys that it was made with. Its methods need no `this`. */
export interface Verifier {
  /**
   * Verifies the token of an activation: proves that a key of the ring signed it for this action, and of v2 that it is
   * still valid. Never that it was not used before: a guard does. It takes no code: recoveries are for `guard.redeem`,
   * which counts the tries.
   *
   * @throws VerificationError when the token is not good
   * @throws InvalidArgumentError when the call is wrong, for instance because the token is no string
   * @example
   * const token = verifier.verify(url.searchParams.get("token") ?? "", { action: "activate" });
   */
  verify(token: string, expected: ExpectedActivation): VerifiedToken;

  /**
   * The same without an exception for a token that is not good.
   *
   * @throws InvalidArgumentError when the call is wrong, for instance because the token is no string
   * @example
   * const result = verifier.tryVerify(token, { action: "activate" });
   * if (!result.ok) return new Response(result.reason, { status: 403 });
   */
  tryVerify(token: string, expected: ExpectedActivation): Verification;

  /**
   * Verifies a recovery and compares its code **without counting the tries**: whoever may ask often enough finds each of
   * the 100,000 codes. Count them yourself, or use `guard.redeem`, which does.
   *
   * @throws VerificationError when the token or the code is not good
   * @throws InvalidArgumentError when the call is wrong
   */
  verifyWithUncountedCode(token: string, expected: ExpectedRecovery): VerifiedToken;

  /**
   * The same, **without counting the tries** either, and without an exception for a token or a code that is not good.
   *
   * @throws InvalidArgumentError when the call is wrong
   */
  tryVerifyWithUncountedCode(token: string, expected: ExpectedRecovery): Verification;

  /**
   * Proves that a key of the ring signed this link for this action and that it is still valid, before a code is typed.
   * A v1 token cannot be judged so.
   *
   * @throws VerificationError when the link is not good
   * @throws InvalidArgumentError when the call is wrong
   * @example
   * const link = verifier.verifyLink(token, { action: "recover" });
   */
  verifyLink(token: string, expected: LinkExpectation): VerifiedLink;

  /**
   * The same without an exception for a link that is not good.
   *
   * @throws InvalidArgumentError when the call is wrong
   */
  tryVerifyLink(token: string, expected: LinkExpectation): LinkVerification;

  /** By how many seconds this verifier's clock may be ahead of the database's. */
  readonly clockTolerance: number;
}

/** @internal What a verifier is made of. */
export interface Parts {
  readonly engine: Engine;
  readonly ring: KeyRing;
  /** The versions that are accepted. */
  readonly accepted: readonly Version[];
  readonly clock: Clock;
  readonly clockTolerance: number;
}

/** @internal What every entry calls `createVerifier`, once it has read its options. */
export function makeVerifier({ engine, ring, accepted, clock, clockTolerance }: Parts): Verifier {
  // By version, since a list is searched more slowly.
  const accepts = [1, 2, 3].map((version) => accepted.includes(version as Version));

  function judge(token: unknown, expected: unknown, known: typeof OF_TOKEN): VerifiedToken | number {
    const { action, code } = readExpectation(expected, known);
    demandAction(action);
    demandString(token);
    demandCode(code);
    const now = Math.floor(clock());
    const status = engine.verify(token, action, code, ring.candidates(token), now, clockTolerance);
    const version = versionOf(token);
    if (!accepts[version - 1]) {
      return isMalformed(status) || (version === 1 && isAboutCode(status)) ? status : SIGNATURE;
    }
    return status === OK ? new VerifiedToken(engine, token, action, engine.expiresAt, now) : status;
  }

  function judgeLink(token: unknown, expected: unknown): VerifiedLink | number {
    const { action } = readExpectation(expected, OF_LINK);
    demandAction(action);
    demandString(token);
    const now = Math.floor(clock());
    const keys = ring.candidates(token);
    const status = engine.verifyLink(token, action, keys, now, clockTolerance);
    if (!accepts[versionOf(token) - 1]) return isMalformed(status) ? status : SIGNATURE;
    if (status !== OK) return status;
    // Every key is asked again: any of those with the same id may be the one.
    const proven = new VerifiedToken(engine, token, action, engine.expiresAt, now);
    return new VerifiedLink(proven, clockTolerance, (code) =>
      engine.verify(token, action, code, keys, now, clockTolerance),
    );
  }

  return Object.freeze<Verifier>({
    verify: (token, expected) => orThrow(judge(token, expected, OF_LINK)),
    tryVerify: (token, expected) => asResult(judge(token, expected, OF_LINK)),
    verifyWithUncountedCode: (token, expected) => orThrow(judge(token, expected, OF_TOKEN)),
    tryVerifyWithUncountedCode: (token, expected) => asResult(judge(token, expected, OF_TOKEN)),
    verifyLink: (token, expected) => orThrow(judgeLink(token, expected)),
    tryVerifyLink(token, expected) {
      const verdict = judgeLink(token, expected);
      return typeof verdict === "number" ? refused(verdict) : { ok: true, link: verdict };
    },
    clockTolerance,
  });
}

/** What was proven, or else the error. */
function orThrow<Proven>(verdict: Proven | number): Proven {
  if (typeof verdict === "number") throw refusal(verdict);
  return verdict;
}

function asResult(verdict: VerifiedToken | number): Verification {
  return typeof verdict === "number" ? refused(verdict) : { ok: true, token: verdict };
}
