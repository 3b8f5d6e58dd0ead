import { described } from "../arguments/described.js";
import { readOptions, unreadable } from "../arguments/options.js";
import { readSpan } from "../arguments/seconds.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { TokenStore } from "../stores/token_store.js";
import type { Verification } from "../token/token.js";
import type { Action, ExpectedActivation, LinkExpectation } from "../token/types.js";
import type { LinkVerification, VerifiedLink } from "../verifier/link.js";
import { type CheckedStore, readStore } from "./checked_store.js";

/** Compares the code of a v3 recovery where that can be done in private; only `true` is consent. */
export type CodeCheck<Further extends string = never> = (
  link: VerifiedLink<Action | Further>,
  code: string,
) => boolean | PromiseLike<boolean>;

/** The part of a verifier that a guard uses; the verifier of every entry has it. */
export interface GuardedVerifier<Further extends string = never> {
  tryVerifyLink(
    token: string,
    expected: LinkExpectation<Further>,
  ): LinkVerification<Action | Further>;
  // Every verifier takes more here, recoveries among them, which are no further actions.
  tryVerify(
    token: string,
    expected: ExpectedActivation<NoInfer<Further>>,
  ): Verification<Action | Further>;
  readonly clockTolerance: number;
}

/** What {@link createGuard} takes. Options of other names are refused. */
export interface GuardOptions<Further extends string = never> {
  /** Judges the tokens. Those who share the store may allow different clock tolerances. */
  readonly verifier: GuardedVerifier<Further>;
  /** Remembers which tokens were used. */
  readonly store: TokenStore;
  /**
   * How many codes may be tried on one link, from 1 to 100. Five digits are 100,000 codes.
   * An attempt stays counted when there was a verdict on its code, whatever the callback did.
   *
   * @default 5
   */
  readonly maxCodeAttempts?: number | undefined;
  /**
   * Compares the code of a v3 recovery, which nothing in the token covers. It is called after the
   * attempt was counted and before the token is used. If it returns `true`, `codeIsProven` holds
   * for the token. Without it v3 recoveries are refused.
   *
   * Throw only when the code could not be compared: `redeem` throws the same, and the attempt is
   * withdrawn. A function that throws for wrong codes allows 100 attempts on a link, whatever
   * `maxCodeAttempts` is.
   */
  readonly checkCode?: CodeCheck<NoInfer<Further>> | undefined;
  /**
   * How many seconds to wait for an answer of the store. Without one, a `consume` is repeated once
   * and then released, and an `attempt` is withdrawn, each at most twice: a redemption waits at
   * most four times as long for a store that hangs.
   *
   * @default 5
   */
  readonly storeTimeout?: number | undefined;
  /**
   * Accepts v1 activations whose expiry the caller does not know, and remembers each for so many
   * seconds. Afterwards the link **can be replayed**: only the database stops it.
   */
  readonly v1RememberFor?: number | undefined;
}

/** @internal The same, read once and judged. */
interface ReadOptions {
  readonly verifier: GuardedVerifier<string>;
  readonly store: CheckedStore;
  readonly maxCodeAttempts: number;
  readonly checkCode: CodeCheck<string> | undefined;
  readonly v1RememberFor: number | undefined;
}

const TIMEOUT = { name: "storeTimeout", least: 0.001, most: 600 };
const TEN_YEARS = { name: "v1RememberFor", least: 1, most: 315_576_000 };

/** @internal */
export function readGuardOptions(given: unknown): ReadOptions {
  const [verifier, store, maxCodeAttempts = 5, checkCode, storeTimeout = 5, v1RememberFor] =
    readOptions(given, [
      "verifier",
      "store",
      "maxCodeAttempts",
      "checkCode",
      "storeTimeout",
      "v1RememberFor",
    ]);
  if (
    !Number.isInteger(maxCodeAttempts) ||
    !((maxCodeAttempts as number) >= 1 && (maxCodeAttempts as number) <= 100)
  ) {
    throw new InvalidArgumentError(
      "the option maxCodeAttempts must be a whole number from 1 to 100, not " +
        described(maxCodeAttempts),
    );
  }
  if (checkCode !== undefined && typeof checkCode !== "function") {
    throw new InvalidArgumentError(
      `the option checkCode must be a function, not ${described(checkCode)}`,
    );
  }
  return {
    verifier: readVerifier(verifier),
    store: readStore(store, readSpan(storeTimeout, TIMEOUT)),
    maxCodeAttempts: maxCodeAttempts as number,
    checkCode: checkCode as CodeCheck<string> | undefined,
    v1RememberFor: v1RememberFor === undefined ? undefined : readSpan(v1RememberFor, TEN_YEARS),
  };
}

/** @internal The option `verifier`. */
export function readVerifier(verifier: unknown): GuardedVerifier<string> {
  try {
    const { tryVerify, tryVerifyLink, clockTolerance } = verifier as GuardedVerifier<string>;
    if (
      typeof tryVerify === "function" &&
      typeof tryVerifyLink === "function" &&
      typeof clockTolerance === "number" &&
      clockTolerance >= 0
    ) {
      return { tryVerify, tryVerifyLink, clockTolerance };
    }
  } catch (cause) {
    if (typeof verifier === "object" && verifier !== null) throw unreadable(cause);
  }
  throw new InvalidArgumentError("the option verifier must be a verifier");
}
