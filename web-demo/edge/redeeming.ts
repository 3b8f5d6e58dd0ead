// A button was pressed: the guard lets a link through once, and the database, which is the
// authority, uses it.

import { createGuard, decodeUnverified, type Guard, type TriedRedemption } from "mailroom-verifier";
import {
  CodeMalformedError,
  CodeRequiredError,
  LinkUncheckableError,
  type RedemptionReason,
  StoreUnavailableError,
  TokenMalformedError,
  TooManyAttemptsError,
  type VerificationReason,
} from "mailroom-verifier/errors";
import { createDurableObjectStore } from "mailroom-verifier/stores/durable-object";
import type { Action, Further } from "./actions.ts";
import type { Environment } from "./environment.ts";
import { FORMATS, type Version } from "./formats.ts";
import { askOrigin, type OriginReason } from "./origin.ts";
import { settingsOf } from "./settings.ts";
import { type KeepAlive, Tries } from "./tries.ts";
import { verifiersOf, versionOf } from "./verifiers.ts";

export type EdgeReason = VerificationReason | RedemptionReason;

export type Outcome = (
  | { readonly by: "edge"; readonly reason: EdgeReason }
  | { readonly by: "origin"; readonly reason: OriginReason }
) & {
  /** The link was to be given back, and the store did not say that it was. */
  readonly stuck?: boolean;
  /**
   * Whether a code counts that nobody has called wrong:
   * no, or perhaps, where only the database knows.
   */
  readonly counted?: "no" | "perhaps";
  /** A v1 recovery, which goes on to the database as it is. */
  readonly judged?: false;
};

/**
 * A v1 activation proves no expiry. The rows live for 15 minutes; afterwards the database alone
 * stops a replay, which it always can.
 */
const V1_REMEMBER_FOR = 15 * 60;

const NAMESPACE = "web-demo";

/**
 * Of a v1 recovery nobody but the database knows the expiry; by then it says so.
 * To that, what the guard adds.
 */
const V1_TRIES_FOR = V1_REMEMBER_FOR + 1_299;

/** How many codes may be tried on one link, as in the database. */
const MOST_TRIES = 5;

/** After these the link was not used, so the guard must give it back. */
const GIVEN_BACK: readonly OriginReason[] = [
  "wrong_code",
  "too_many_attempts",
  "not_eligible",
  "away",
  "silent",
];

/**
 * Whoever reads one of these has not learnt that a code is wrong, so its try is taken back; a wrong
 * code always counts.
 */
const NOT_WRONG: readonly (OriginReason | EdgeReason)[] = [
  "unknown",
  "not_eligible",
  "away",
  "silent",
  "ERR_TOKEN_USED",
  "ERR_TOO_MANY_ATTEMPTS",
  "ERR_STORE_FULL",
  "ERR_STORE_UNAVAILABLE",
];

/** Thrown in the callback, after which the guard gives the link back. */
class GiveBack extends Error {
  readonly reason: OriginReason;

  constructor(reason: OriginReason) {
    super(reason);
    this.reason = reason;
  }
}

/**
 * @param keepAlive a visitor who leaves ends the request, and without this all that it has begun:
 * the link would be given back by nobody
 */
export function redeem(
  env: Environment,
  keepAlive: KeepAlive,
  token: string,
  action: Action,
  code: string | undefined,
): Promise<Outcome> {
  const outcome = redeemOnce(env, keepAlive, token, action, code);
  keepAlive(outcome.catch(() => undefined));
  return outcome;
}

async function redeemOnce(
  env: Environment,
  keepAlive: KeepAlive,
  token: string,
  action: Action,
  code: string | undefined,
): Promise<Outcome> {
  const version = versionOf(token);
  if (version === undefined) return { by: "edge", reason: TokenMalformedError.reason };
  const store = createDurableObjectStore({ binding: env.USED_TOKENS, namespace: NAMESPACE });
  const tries = new Tries(store, keepAlive);
  const outcome =
    !FORMATS[version].hasHeader && action === "recover"
      ? await redeemUnjudged(env, tries, token, code)
      : await redeemJudged(guardOf(env, version, store, tries), env, token, action, code);
  if (action !== "recover" || !NOT_WRONG.includes(outcome.reason)) return outcome;
  const takenBack = await tries.takeBack();
  return {
    ...outcome,
    counted: takenBack && !databaseMayCount(version, outcome) ? "no" : "perhaps",
  };
}

async function redeemJudged(
  guard: Guard<Further>,
  env: Environment,
  token: string,
  action: Action,
  code: string | undefined,
): Promise<Outcome> {
  // The type forbids an activation's code, which a visitor may send all the same:
  // the guard refuses it.
  const expected = { action, code } as TriedRedemption<Further>;
  try {
    const redeemed = await guard.tryRedeem(token, expected, async ({ secret }) => {
      const reason = await askOrigin(env, secret, action, code);
      if (GIVEN_BACK.includes(reason)) throw new GiveBack(reason);
      return reason;
    });
    return redeemed.ok
      ? { by: "origin", reason: redeemed.result }
      : { by: "edge", reason: redeemed.reason };
  } catch (error) {
    if (error instanceof GiveBack) return { by: "origin", reason: error.reason };
    // The store did not take it back, or did not say so: what the callback has found is beside it.
    const [found] = error instanceof StoreUnavailableError ? causesOf(error) : [];
    if (found instanceof GiveBack) return { by: "origin", reason: found.reason, stuck: true };
    throw error;
  }
}

/**
 * A v1 recovery cannot be judged apart from its code, and its code only by the database.
 *
 * Its tries are counted here as well, with those of every other token of the same row: the secret
 * stands in clear in a v2 or v3 token, and as one of v1 it would be good for five verdicts more.
 * Whether the link was used is not looked up: the store of the package has no question that leaves
 * nothing behind, and who wants to cost the database a call needs no used link for that, any 64
 * bytes will do.
 */
async function redeemUnjudged(
  env: Environment,
  tries: Tries,
  token: string,
  code: string | undefined,
): Promise<Outcome> {
  if (!settingsOf(env).v1Recoveries) return { by: "edge", reason: LinkUncheckableError.reason };
  if (code === undefined) return { by: "edge", reason: CodeRequiredError.reason };
  if (!/^[0-9]{5}$/.test(code)) return { by: "edge", reason: CodeMalformedError.reason };
  const { unverifiedConsumedId, unverifiedSecret } = decodeUnverified(token);
  const until = Math.floor(Date.now() / 1000) + V1_TRIES_FOR;
  const owner = crypto.getRandomValues(new Uint8Array(16));
  const number = await tries.attempt(unverifiedConsumedId, until, owner).catch(() => undefined);
  if (number === undefined) return { by: "edge", reason: StoreUnavailableError.reason };
  if (!(number <= MOST_TRIES)) return { by: "edge", reason: TooManyAttemptsError.reason };
  return {
    by: "origin",
    reason: await askOrigin(env, unverifiedSecret, "recover", code),
    judged: false,
  };
}

/**
 * Of v2 it gets right codes alone; of the others every one,
 * and it counts also if its answer was lost.
 */
function databaseMayCount(version: Version, { reason }: Outcome): boolean {
  return !FORMATS[version].hasCodeTag && reason === "silent";
}

function causesOf({ cause }: Error): readonly unknown[] {
  return cause instanceof AggregateError ? cause.errors : [];
}

function guardOf(
  env: Environment,
  version: Version,
  store: ReturnType<typeof createDurableObjectStore>,
  tries: Tries,
): Guard<Further> {
  const verifiers = verifiersOf(env);
  return createGuard({
    verifier: FORMATS[version].isPublic ? verifiers.public : verifiers.shared,
    store: { ...store, attempt: (...given) => tries.attempt(...given) },
    maxCodeAttempts: MOST_TRIES,
    v1RememberFor: V1_REMEMBER_FOR,
    // Nothing that the edge may know covers the code of a v3 recovery. The guard has counted the
    // try; the database counts and compares when the callback asks it, in the one statement that
    // also uses the link.
    checkCode: () => true,
  });
}
