// The one call that goes on to the origin, for links that are worth it.

import type { Environment } from "./environment.ts";
import { tally } from "./tally.ts";
import type { Action } from "./verifiers.ts";

/** What `mailroom_redeem` answers, see docs/DATABASE.md. */
export type Verdict =
  | "ok"
  | "unknown"
  | "used"
  | "expired"
  | "not_eligible"
  | "too_many_attempts"
  | "wrong_code";

const VERDICTS: readonly string[] = [
  "ok",
  "unknown",
  "used",
  "expired",
  "not_eligible",
  "too_many_attempts",
  "wrong_code",
] satisfies Verdict[];

const TIMEOUT = 5_000;

/** The origin or its database does not answer: nothing was decided. */
export class OriginAway extends Error {
  override readonly name = "OriginAway";
}

export async function askOrigin(
  env: Environment,
  secret: Uint8Array,
  action: Action,
  code: string | undefined,
): Promise<Verdict> {
  tally.calls += 1;
  try {
    const response = await env.ORIGIN.fetch("http://origin/redeem", {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${env.ORIGIN_PASSWORD}` },
      body: JSON.stringify({ secret: hexadecimal(secret), action, code }),
      signal: AbortSignal.timeout(TIMEOUT),
    });
    if (!response.ok) throw new OriginAway(`status ${response.status}`);
    const { verdict } = await response.json<{ verdict: Verdict }>();
    if (!VERDICTS.includes(verdict)) throw new OriginAway("no verdict");
    return verdict;
  } catch (error) {
    throw error instanceof OriginAway ? error : new OriginAway("no answer", { cause: error });
  }
}

function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
