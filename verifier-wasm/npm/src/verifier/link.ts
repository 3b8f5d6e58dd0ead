import { atCaller } from "../arguments/caller.js";
import { codeOf } from "../arguments/options.js";
import { asResult, orThrow } from "../errors/status.js";
import type { Verification, VerifiedToken } from "../token/token.js";
import type { Action, Browser, Bytes, Refused } from "../token/types.js";

/** @internal Judges a link together with a code; the number is one of `status.ts`. */
type CodeJudge<Name extends string> = (code: string | undefined) => VerifiedToken<Name> | number;

/**
 * A link of v2 or v3 whose signature, action and expiry are proven; of its code nothing is.
 *
 * Its values are getters, so that neither `console.log` nor `JSON.stringify` shows them.
 */
export abstract class ProvenLink<Name extends string = Action> {
  /** The token, which is returned only once its code is proven. */
  readonly #token: VerifiedToken<Name>;
  readonly #tolerance: number;
  readonly #digits: number;

  /** @internal */
  constructor(token: VerifiedToken<Name>, tolerance: number, digits: number) {
    this.#token = token;
    this.#tolerance = tolerance;
    this.#digits = digits;
  }

  /** The version of the signature format. */
  get version(): 2 | 3 {
    return this.#token.version as 2 | 3;
  }

  /** What the link is good for. */
  get action(): Name {
    return this.#token.action;
  }

  /** How many digits the code of the action has; 0 for an action without a code. */
  get codeDigits(): number {
    return this.#digits;
  }

  /** When the link ends, in seconds since the Unix epoch. */
  get expiresAt(): number {
    return this.#token.expiresAt as number;
  }

  /**
   * When this verifier stops accepting the link: its expiry and the clock tolerance, in seconds
   * since the Unix epoch.
   */
  get acceptedUntil(): number {
    return this.expiresAt + this.#tolerance;
  }

  /** When the link was judged, by the verifier's clock, in whole seconds since the Unix epoch. */
  get verifiedAt(): number {
    return this.#token.verifiedAt;
  }

  /**
   * In which browser the link was opened. In `"other"` ask for the code, which alone proves the
   * person there: `withUncountedCode` judges it in v2, the database in v3.
   */
  get browser(): Browser {
    return this.#token.browser;
  }

  /** The 32 bytes by which the database finds the token's row; a fresh copy each time. */
  get secret(): Bytes {
    return this.#token.secret;
  }

  /**
   * The 16 bytes under which attempts and use of this link are remembered; a fresh copy each time.
   * All tokens of one row have the same id. It reveals nothing about the secret, so it may be
   * stored and logged.
   */
  get consumedId(): Bytes {
    return this.#token.consumedId;
  }
}

/** A link that is proven by a verifier that answers at once. */
export class VerifiedLink<Name extends string = Action> extends ProvenLink<Name> {
  readonly #judge: CodeJudge<Name>;

  /** @internal */
  constructor(
    token: VerifiedToken<Name>,
    tolerance: number,
    digits: number,
    judge: CodeJudge<Name>,
  ) {
    super(token, tolerance, digits);
    this.#judge = judge;
  }

  /**
   * Compares the code that was typed beside this link **without counting the attempts**: with
   * enough calls each of the 100,000 codes is found. Count them yourself before you call it, or use
   * `guard.redeem`, which does.
   *
   * The clock is read again: a link that has expired since it was verified is refused. In another
   * browser a link is refused whose code no signature covers.
   *
   * @throws VerificationError when the code is wrong, no signature covers one,
   * or the link has expired
   */
  withUncountedCode(code: string | undefined): VerifiedToken<Name> {
    return atCaller(this.withUncountedCode, () => orThrow(this.#judge(codeOf(code))));
  }

  /**
   * The same, **without counting the attempts** either, and without an exception for any value that
   * the visitor sent: one that is no string is a malformed code.
   */
  tryWithUncountedCode(code: unknown): Verification<Name> {
    return asResult(this.#judge(codeOf(code)));
  }
}

/** What `tryVerifyLink` found. */
export type LinkVerification<Name extends string = Action> = VerifiedLinkResult<Name> | Refused;

/** The link is genuine and still valid. */
export interface VerifiedLinkResult<Name extends string = Action> {
  readonly ok: true;
  readonly link: VerifiedLink<Name>;
}
