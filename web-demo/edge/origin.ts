// The one call that goes on to the origin, for links that are worth it.

import type { Action } from "./actions.ts";
import type { Environment } from "./environment.ts";
import { tally } from "./tally.ts";

/** What `mailroom.redeem` answers, see docs/reference/sql.md. */
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

/**
 * Above all that the origin waits for (origin/main.ts),
 * so that whatever it has begun is over when this is.
 */
const TIMEOUT = 5_000;

/** The origin or its database does not answer. */
export class OriginAway extends Error {
  override readonly name = "OriginAway";
  /** Whether it is certain that nothing was changed; otherwise only the answer may be lost. */
  readonly nothingDone: boolean;

  constructor(message: string, nothingDone: boolean, options?: ErrorOptions) {
    super(message, options);
    this.nothingDone = nothingDone;
  }
}

/** @throws OriginAway */
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
      headers: {
        "Content-Type": "application/json",
        Authorization: `Bearer ${env.ORIGIN_PASSWORD}`,
      },
      body: JSON.stringify({ secret: hexadecimal(secret), action, code }),
      signal: AbortSignal.timeout(TIMEOUT),
    });
    const { verdict, changed } = await response.json<{ verdict?: Verdict; changed?: false }>();
    if (response.ok && verdict !== undefined && VERDICTS.includes(verdict)) return verdict;
    throw new OriginAway(`status ${response.status}`, changed === false);
  } catch (error) {
    throw error instanceof OriginAway
      ? error
      : new OriginAway("no answer", false, { cause: error });
  }
}

function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
