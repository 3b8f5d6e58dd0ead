// A button was pressed: the guard lets a link through once, and the origin, whose database is the authority, uses it.

import { createGuard, type Guard, inspect } from "mailroom-verifier";
import {
  CodeMalformedError,
  CodeRequiredError,
  type RedemptionErrorCode,
  StoreUnavailableError,
  TokenMalformedError,
  type VerificationErrorCode,
} from "mailroom-verifier/errors";
import { createDurableObjectStore } from "mailroom-verifier/stores/durable-object";
import type { Environment } from "./environment.ts";
import { askOrigin, OriginAway, type Verdict } from "./origin.ts";
import { Tries } from "./tries.ts";
import { type Action, verifiersOf, versionOf } from "./verifiers.ts";

/** `away`: nothing was done. `silent`: nobody knows whether it was. */
export type OriginReason = Verdict | "away" | "silent";

export type EdgeReason = VerificationErrorCode | RedemptionErrorCode;

export type Outcome = (
  | { readonly by: "edge"; readonly reason: EdgeReason }
  | { readonly by: "origin"; readonly reason: OriginReason }
) & {
  /** The link was to be given back, and the store did not say that it was. */
  readonly stuck?: boolean;
  /** Whether a code counts that nobody has called wrong: no, or perhaps, where only the database knows. */
  readonly counted?: "no" | "perhaps";
  /** A v1 recovery, which goes on to the database as it is. */
  readonly judged?: false;
};

/**
 * A v1 activation proves no expiry. The rows live for 15 minutes; afterwards the database alone stops a replay, which
 * it always can.
 */
const V1_REMEMBER_FOR = 15 * 60;

const NAMESPACE = "web-demo";

/** After these the link is as good as before, so the guard must give it back. */
const GIVEN_BACK: readonly OriginReason[] = ["wrong_code", "not_eligible", "away", "silent"];

/** Whoever reads one of these has not learnt that a code is wrong, so its try is taken back; a wrong code always counts. */
const NOT_WRONG: readonly (OriginReason | EdgeReason)[] = [
  "not_eligible",
  "away",
  "silent",
  "ERR_TOKEN_USED",
  "ERR_TOO_MANY_ATTEMPTS",
  "ERR_STORE_FULL",
  "ERR_STORE_UNAVAILABLE",
];

/** Thrown in the effect, after which the guard gives the link back. */
class GiveBack extends Error {
  readonly reason: OriginReason;

  constructor(reason: OriginReason) {
    super(reason);
    this.reason = reason;
  }
}

export async function redeem(
  env: Environment,
  token: string,
  action: Action,
  code: string | undefined,
): Promise<Outcome> {
  const version = versionOf(token);
  if (version === undefined) return { by: "edge", reason: TokenMalformedError.code };
  if (version === 1 && action === "recover") return redeemUnjudged(env, token, code);
  const tries = new Tries(env.CODE_TRIES, NAMESPACE);
  const outcome = await redeemJudged(guardOf(env, version, tries), env, token, action, code);
  if (action === "activate" || !NOT_WRONG.includes(outcome.reason)) return outcome;
  const takenBack = await tries.giveBack();
  return { ...outcome, counted: takenBack && !databaseMayCount(version, outcome) ? "no" : "perhaps" };
}

async function redeemJudged(
  guard: Guard,
  env: Environment,
  token: string,
  action: Action,
  code: string | undefined,
): Promise<Outcome> {
  try {
    const redeemed = await guard.tryRedeem(token, { action, code }, async ({ secret }) => {
      const reason = await reasonOf(env, secret, action, code);
      if (GIVEN_BACK.includes(reason)) throw new GiveBack(reason);
      return reason;
    });
    return redeemed.ok ? { by: "origin", reason: redeemed.result } : { by: "edge", reason: redeemed.code };
  } catch (error) {
    if (error instanceof GiveBack) return { by: "origin", reason: error.reason };
    // The store did not take it back, or did not say so: what the effect has found is beside it.
    const [found] = error instanceof StoreUnavailableError ? causesOf(error) : [];
    if (found instanceof GiveBack) return { by: "origin", reason: found.reason, stuck: true };
    throw error;
  }
}

/** A v1 recovery cannot be judged apart from its code, and its code only by the database, which counts the tries. */
async function redeemUnjudged(env: Environment, token: string, code: string | undefined): Promise<Outcome> {
  if (code === undefined) return { by: "edge", reason: CodeRequiredError.code };
  if (!/^[0-9]{5}$/.test(code)) return { by: "edge", reason: CodeMalformedError.code };
  const reason = await reasonOf(env, inspect(token).unverifiedSecret, "recover", code);
  const outcome = { by: "origin", reason, judged: false } as const;
  if (reason === "away") return { ...outcome, counted: "no" };
  return reason === "silent" ? { ...outcome, counted: "perhaps" } : outcome;
}

/** An origin that is away is an answer, too: in an effect it has to be told from what is wrong with this program. */
async function reasonOf(
  env: Environment,
  secret: Uint8Array,
  action: Action,
  code: string | undefined,
): Promise<OriginReason> {
  try {
    return await askOrigin(env, secret, action, code);
  } catch (error) {
    if (error instanceof OriginAway) return error.nothingDone ? "away" : "silent";
    throw error;
  }
}

/** Of v2 it gets right codes alone; of v3 every one, and it counts also if its answer was lost. */
function databaseMayCount(version: 1 | 2 | 3, { reason }: Outcome): boolean {
  return version === 3 && reason === "silent";
}

function causesOf({ cause }: Error): readonly unknown[] {
  return cause instanceof AggregateError ? cause.errors : [];
}

function guardOf(env: Environment, version: 1 | 2 | 3, tries: Tries): Guard {
  const verifiers = verifiersOf(env);
  const { consume, release } = createDurableObjectStore({ binding: env.USED_TOKENS, namespace: NAMESPACE });
  return createGuard({
    verifier: version === 3 ? verifiers.public : verifiers.shared,
    store: { consume, release, attempt: (id, rememberUntil) => tries.attempt(id, rememberUntil) },
    v1RememberFor: V1_REMEMBER_FOR,
    // Nothing that the edge may know covers the code of a v3 recovery. The guard has counted the try; the database
    // counts and compares when the effect asks it, in the one statement that also uses the link.
    checkCode: () => true,
  });
}
