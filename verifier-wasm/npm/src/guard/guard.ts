import { described } from "../arguments/described.js";
import { codeOf, OF_REDEMPTION, readExpectation, textOf } from "../arguments/options.js";
import { MAX_CLOCK_TOLERANCE, readTime } from "../arguments/seconds.js";
import { denied, type RefusedRedemption } from "../errors/denial.js";
import {
  errorOf,
  GuardUnsupportedError,
  InvalidArgumentError,
  StoreUnavailableError,
  TokenUsedError,
  TooManyAttemptsError,
} from "../errors/errors.js";
import {
  CODE_MALFORMED,
  CODE_MISMATCH,
  CODE_REQUIRED,
  CODE_UNCHECKABLE,
  EXPIRED,
  OTHER_BROWSER,
  refused,
} from "../errors/status.js";
import type { Verification, VerifiedToken } from "../token/token.js";
import type {
  Action,
  ExpectedActivation,
  ExpectedRecovery,
  Nonce,
  TriedRecovery,
} from "../token/types.js";
import { coversCode } from "../token/version.js";
import type { VerifiedLink } from "../verifier/link.js";
import { type GuardOptions, readGuardOptions } from "./options.js";

/** By how many seconds the clocks of those who share a store may differ. */
const CLOCK_MARGIN = 300;

/**
 * For how many seconds after its expiry a link is remembered: with the largest tolerance that a
 * verifier may have, since another guard of the same store may have a larger one.
 */
export const REMEMBERED_AFTER = MAX_CLOCK_TOLERANCE + CLOCK_MARGIN;

const OWNER_LENGTH = 16;

/** What {@link Guard.redeem} is asked for. Options of other names are refused. */
export type Redemption<Further extends string = never> =
  | RedeemedActivation<Further>
  | ExpectedRecovery<Further>;

/** What {@link Guard.tryRedeem} is asked for, with whatever the visitor sent as a code. */
export type TriedRedemption<Further extends string = never> =
  | RedeemedActivation<Further>
  | TriedRecovery<Further>;

/** An activation, or another action without a code, that is redeemed. */
export interface RedeemedActivation<Further extends string = never>
  extends ExpectedActivation<Further> {
  /**
   * When the token's row expires, in seconds since the Unix epoch, as the caller knows it: a v1
   * activation carries no expiry. Tokens of other versions prove their own, and this is ignored.
   */
  readonly expiresAt?: number | undefined;
}

/** What `tryRedeem` found. */
export type Redeemed<Result, Further extends string = never> =
  | { readonly ok: true; readonly token: VerifiedToken<Action | Further>; readonly result: Result }
  | RefusedRedemption;

/**
 * A verifier together with a store of used tokens: lets a link through once. Its methods need no
 * `this`.
 *
 * It keeps forged, stale and replayed links away from the origin. The authority is the database:
 * the origin still redeems the token there, so an entry that a store forgets forges nothing.
 */
export interface Guard<Further extends string = never> {
  /**
   * Verifies a token and marks it as used, so that one redemption among all guards of the store
   * succeeds.
   *
   * Redeem when a button is pressed, never when a page is opened: mail scanners open links. Tokens
   * that are not genuine, valid and for this action and browser never reach the store. Each attempt
   * at a code takes a number before the code is compared.
   *
   * @throws VerificationError when the token or the code is not good
   * @throws RedemptionError when the token was used, too many codes were tried, or the store does
   * not consent
   * @throws InvalidArgumentError when the call is wrong
   */
  redeem(token: string, expected: Redemption<Further>): Promise<VerifiedToken<Action | Further>>;

  /**
   * The same, and then the callback, the call to the origin; its result is returned. If it throws,
   * the token is released and can be used again, and what it threw is thrown: the callback has to
   * be one that may be repeated, as is a call to a database that decides. A call that timed out may
   * still run at the origin, beside the next one: the database decides which of them uses the
   * token. A callback that never ends keeps the token used.
   *
   * @example
   * await guard.redeem(token, { action: "recover", code }, (verified) =>
   *   origin.recover(verified.secret, password),
   * );
   */
  redeem<Result>(
    token: string,
    expected: Redemption<Further>,
    callback: (token: VerifiedToken<Action | Further>) => Result | PromiseLike<Result>,
  ): Promise<Result>;

  /**
   * The same without an exception for whatever the visitor sent as a token and a code: what is no
   * string is a malformed one. What the callback throws is thrown.
   *
   * @example
   * const redeemed = await guard.tryRedeem(form.get("token"), { action: "activate" });
   * if (!redeemed.ok) {
   *   const status = redeemed.kind === "visitor" ? 403 : 503;
   *   return new Response(redeemed.reason, { status });
   * }
   */
  tryRedeem(
    token: unknown,
    expected: TriedRedemption<Further>,
  ): Promise<Redeemed<undefined, Further>>;
  tryRedeem<Result>(
    token: unknown,
    expected: TriedRedemption<Further>,
    callback: (token: VerifiedToken<Action | Further>) => Result | PromiseLike<Result>,
  ): Promise<Redeemed<Result, Further>>;
}

/** A verified token that is not yet marked as used. */
interface Genuine {
  readonly ok: true;
  readonly token: VerifiedToken<string>;
  readonly rememberUntil: number;
  /** The owner of attempt and use: random, for this redemption alone. */
  readonly owner: Uint8Array;
}

type Judged = Genuine | RefusedRedemption;

/** Without a prototype, to which other code may have written. */
const PROVEN: PropertyDescriptor = /* @__PURE__ */ Object.assign(
  /* @__PURE__ */ Object.create(null),
  { value: true },
);

/**
 * A buffer of random bytes: to get 16 of them takes longer than the rest of a redemption. Copies of
 * a running process, such as snapshots of a virtual machine, have the same bytes (threat model).
 */
let stock = /* @__PURE__ */ new Uint8Array(0);
let taken = 0;

/** @internal An owner that no redemption before had. */
export function newOwner(): Uint8Array {
  if (taken === stock.length) {
    stock = crypto.getRandomValues(new Uint8Array(64 * OWNER_LENGTH));
    taken = 0;
  }
  taken += OWNER_LENGTH;
  return stock.slice(taken - OWNER_LENGTH, taken);
}

function remembered(
  proven: Verification<string>,
  rememberUntil: number,
  owner?: Uint8Array,
): Judged {
  return proven.ok
    ? { ok: true, token: proven.token, rememberUntil, owner: owner ?? newOwner() }
    : proven;
}

/** @internal What every entry calls `createGuard`. */
export function makeGuard<Further extends string>(given: GuardOptions<Further>): Guard<Further> {
  const { verifier, store, maxCodeAttempts, checkCode, v1RememberFor } = readGuardOptions(given);

  /** Every check but the last one, the use. */
  function judge(
    token: string,
    action: string,
    code: string | undefined,
    expiresAt: number | undefined,
    nonce: Nonce,
  ): Judged | Promise<Judged> {
    const found = verifier.tryVerifyLink(token, { action, nonce });
    if (!found.ok)
      return found.reason === "ERR_LINK_UNCHECKABLE"
        ? judgeV1(token, action, code, expiresAt)
        : found;
    const { link } = found;
    // This comes before a try is counted: tries from elsewhere would use up the tries of the person
    // who asked for the link.
    if (link.browser === "other") return refused(OTHER_BROWSER);
    const rememberUntil = link.expiresAt + REMEMBERED_AFTER;
    if (link.codeDigits !== 0) return judgeCode(link, code, rememberUntil);
    return remembered(link.tryWithUncountedCode(code), rememberUntil);
  }

  function judgeV1(
    token: string,
    action: string,
    code: string | undefined,
    expiresAt: number | undefined,
  ): Judged {
    // A v1 verdict shows whether the code was right, and attempts cannot be counted before it.
    if (action === "recover") {
      return denied(GuardUnsupportedError, "a v1 recovery is for the database to redeem");
    }
    if (expiresAt === undefined && v1RememberFor === undefined) {
      return denied(
        GuardUnsupportedError,
        "a v1 token has no expiry: give redeem the row's expiresAt, or createGuard v1RememberFor",
      );
    }
    if (code !== undefined) {
      return refused(CODE_UNCHECKABLE);
    }
    const found = verifier.tryVerify(token, { action });
    if (!found.ok) return found;
    const { verifiedAt } = found.token;
    const expiry = expiresAt ?? verifiedAt + (v1RememberFor ?? 0);
    if (verifiedAt >= expiry + verifier.clockTolerance) return refused(EXPIRED);
    return remembered(found, expiry + REMEMBERED_AFTER);
  }

  /** Proves the code of a recovery, after a number was taken for this attempt. */
  async function judgeCode(
    link: VerifiedLink<string>,
    code: string | undefined,
    rememberUntil: number,
  ): Promise<Judged> {
    if (code === undefined) return refused(CODE_REQUIRED);
    if (code.length !== link.codeDigits || !/^[0-9]+$/.test(code)) return refused(CODE_MALFORMED);
    const isCovered = coversCode(link.version);
    if (!isCovered && !checkCode) {
      return denied(GuardUnsupportedError, "a v3 token covers no code: give createGuard checkCode");
    }
    if (!store.attempt) {
      return denied(
        GuardUnsupportedError,
        "the store counts no tries: give it a method attempt, " +
          "or let the database redeem recoveries",
      );
    }
    const owner = newOwner();
    // The number is taken before the comparison: otherwise simultaneous guesses would all get
    // verdicts.
    const taken = await store.attempt(link.consumedId, rememberUntil, owner);
    if (!taken.ok) return taken;
    if (taken.answer > maxCodeAttempts) {
      return denied(TooManyAttemptsError, "too many codes were tried on this link");
    }
    if (isCovered || !checkCode) {
      return remembered(link.tryWithUncountedCode(code), rememberUntil, owner);
    }
    let right: unknown;
    try {
      right = await checkCode(link, code);
    } catch (error) {
      // There was no verdict on the code.
      await store.withdraw(link.consumedId, rememberUntil, owner);
      throw error;
    }
    if (right === false) return refused(CODE_MISMATCH);
    // The attempt stays counted: a comparison that returns no boolean for wrong codes has judged
    // this one.
    if (right !== true) {
      throw new InvalidArgumentError(`checkCode answers true or false, not ${described(right)}`);
    }
    const proven = remembered(link.tryWithUncountedCode(undefined), rememberUntil, owner);
    // The token covers no code, so this comes from the comparison.
    if (proven.ok) Object.defineProperty(proven.token, "codeIsProven", PROVEN);
    return proven;
  }

  async function redeem(
    token: unknown,
    expected: unknown,
    callback: unknown,
  ): Promise<
    | { readonly ok: true; readonly token: VerifiedToken<string>; readonly result: unknown }
    | RefusedRedemption
  > {
    const { action, code, expiresAt, nonce } = readExpectation(expected, OF_REDEMPTION);
    // The verifier knows which actions there are.
    if (typeof action !== "string")
      throw new InvalidArgumentError("the option action must name an action");
    const until = expiresAt === undefined ? undefined : readTime(expiresAt, "the option expiresAt");
    if (callback !== undefined && typeof callback !== "function") {
      throw new InvalidArgumentError("the callback must be a function");
    }
    if (typeof globalThis.crypto?.getRandomValues !== "function") {
      return denied(
        GuardUnsupportedError,
        "there is no crypto.getRandomValues here, which the guard needs",
      );
    }

    // A synchronous answer is not awaited.
    const judged = judge(textOf(token), action, codeOf(code), until, textOf(nonce));
    const genuine = judged instanceof Promise ? await judged : judged;
    if (!genuine.ok) return genuine;
    const { rememberUntil, owner } = genuine;
    const asked = store.consume(genuine.token.consumedId, rememberUntil, owner);
    const used = asked instanceof Promise ? await asked : asked;
    if (!used.ok) return used;
    if (!used.answer) return denied(TokenUsedError, "the token was used before");
    if (callback === undefined) return { ok: true, token: genuine.token, result: undefined };
    try {
      const result: unknown = await Reflect.apply(callback, undefined, [genuine.token]);
      return { ok: true, token: genuine.token, result };
    } catch (error) {
      const released = await store.release(genuine.token.consumedId, rememberUntil, owner);
      if (released.ok) throw error;
      throw new StoreUnavailableError("the callback failed, and the token may stay used", {
        cause: new AggregateError([error, errorOf(released)]),
      });
    }
  }

  return Object.freeze<Guard<Further>>({
    async redeem(token: string, expected: Redemption<Further>, callback?: unknown): Promise<never> {
      const redeemed = await redeem(token, expected, callback);
      if (!redeemed.ok) throw errorOf(redeemed);
      return (callback === undefined ? redeemed.token : redeemed.result) as never;
    },
    tryRedeem(
      token: unknown,
      expected: TriedRedemption<Further>,
      callback?: unknown,
    ): Promise<never> {
      return redeem(token, expected, callback) as Promise<never>;
    },
  });
}
