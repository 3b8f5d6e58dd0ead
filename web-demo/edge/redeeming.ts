// A button was pressed: the guard lets a link through once, and the origin, whose database is the authority, uses it.

import { createGuard, type Guard, inspect } from "mailroom-verifier";
import {
  CodeMalformedError,
  CodeRequiredError,
  type RedemptionErrorCode,
  TokenMalformedError,
  type VerificationErrorCode,
} from "mailroom-verifier/errors";
import { createDurableObjectStore } from "mailroom-verifier/stores/durable-object";
import type { Environment } from "./environment.ts";
import { askOrigin, type Verdict } from "./origin.ts";
import { type Action, verifiersOf, versionOf } from "./verifiers.ts";

export type Outcome =
  | { readonly by: "edge"; readonly reason: VerificationErrorCode | RedemptionErrorCode }
  | { readonly by: "origin"; readonly reason: Verdict };

/**
 * A v1 activation proves no expiry. The rows live for 15 minutes; afterwards the database alone stops a replay, which
 * it always can.
 */
const V1_REMEMBER_FOR = 15 * 60;

/** After these the link is as good as before, so the guard must give it back. */
const GIVEN_BACK: readonly Verdict[] = ["wrong_code", "not_eligible"];

class GiveBack extends Error {
  readonly verdict: Verdict;

  constructor(verdict: Verdict) {
    super(verdict);
    this.verdict = verdict;
  }
}

/** @throws OriginAway, after which the link still works */
export async function redeem(
  env: Environment,
  token: string,
  action: Action,
  code: string | undefined,
): Promise<Outcome> {
  const version = versionOf(token);
  if (version === undefined) return { by: "edge", reason: TokenMalformedError.code };
  if (version === 1 && action === "recover") return redeemUnjudged(env, token, code);
  try {
    const redeemed = await guardOf(env, version).tryRedeem(token, { action, code }, async ({ secret }) => {
      const verdict = await askOrigin(env, secret, action, code);
      if (GIVEN_BACK.includes(verdict)) throw new GiveBack(verdict);
      return verdict;
    });
    return redeemed.ok ? { by: "origin", reason: redeemed.result } : { by: "edge", reason: redeemed.code };
  } catch (error) {
    if (error instanceof GiveBack) return { by: "origin", reason: error.verdict };
    throw error;
  }
}

/** A v1 recovery cannot be judged apart from its code, and its code only by the database, which counts the tries. */
async function redeemUnjudged(env: Environment, token: string, code: string | undefined): Promise<Outcome> {
  if (code === undefined) return { by: "edge", reason: CodeRequiredError.code };
  if (!/^[0-9]{5}$/.test(code)) return { by: "edge", reason: CodeMalformedError.code };
  return { by: "origin", reason: await askOrigin(env, inspect(token).unverifiedSecret, "recover", code) };
}

function guardOf(env: Environment, version: 1 | 2 | 3): Guard {
  const verifiers = verifiersOf(env);
  return createGuard({
    verifier: version === 3 ? verifiers.public : verifiers.shared,
    store: createDurableObjectStore({ binding: env.USED_TOKENS, namespace: "web-demo" }),
    v1RememberFor: V1_REMEMBER_FOR,
    // Nothing that the edge may know covers the code of a v3 recovery. The guard has counted the try; the database
    // counts and compares when the effect asks it, in the one statement that also uses the link.
    checkCode: () => true,
  });
}
