import type { Verification, VerifiedToken } from "../token/token.js";
import type { Action, Refused } from "../token/types.js";
import { ProvenLink } from "../verifier/link.js";
import { asResult, orThrow, type Verdict } from "./verdict.js";

/** @internal Judges a link together with whatever was sent as its code. */
type CodeJudge<Name extends string> = (code: unknown) => Promise<Verdict<VerifiedToken<Name>>>;

/** A link that the platform's cryptography has proven. */
export class WebLink<Name extends string = Action> extends ProvenLink<Name> {
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
   * enough calls each of the 100,000 codes is found. Count them yourself before you call it.
   *
   * The clock is read again: a link that has expired since it was verified is refused. In another
   * browser a link is refused whose code no signature covers.
   *
   * @throws VerificationError when the code is wrong, no signature covers one,
   * or the link has expired
   */
  async withUncountedCode(code: string | undefined): Promise<VerifiedToken<Name>> {
    return orThrow(await this.#judge(code));
  }

  /**
   * The same, **without counting the attempts** either, and without an exception for any value that
   * the visitor sent: one that is no string is a malformed code.
   */
  async tryWithUncountedCode(code: unknown): Promise<Verification<Name>> {
    return asResult("token", await this.#judge(code));
  }
}

/** What `tryVerifyLink` found. */
export type WebLinkVerification<Name extends string = Action> = VerifiedWebLink<Name> | Refused;

/** The link is genuine and still valid. */
export interface VerifiedWebLink<Name extends string = Action> {
  readonly ok: true;
  readonly link: WebLink<Name>;
}
