// The one call that goes on behind the edge, for links that are worth it: `mailroom serve` uses the
// link of an account, whose effect is the database's own. An invitation is accepted in the
// transaction that uses its link, so the origin does that, and answers as `mailroom serve` does.

import { createMailroom, type DatabaseError, http, type Verdict } from "mailroom-verifier/database";
import type { Action } from "./actions.ts";
import type { Environment } from "./environment.ts";
import { tally } from "./tally.ts";

/** `away`: nothing was done. `silent`: nobody knows whether it was. */
export type OriginReason = Verdict | "away" | "silent";

/** Which of the two uses links of an action, by its name on the pages. */
export function userOf(action: Action): "origin" | "serve" {
  return action === "invite" ? "origin" : "serve";
}

/**
 * In seconds: above all that those two wait for (docs/reference/serve.md, origin/main.ts), so that
 * whatever they have begun is over when this is.
 */
const TIMEOUT = 30;

export async function askOrigin(
  env: Environment,
  secret: Uint8Array,
  action: Action,
  code: string | undefined,
): Promise<OriginReason> {
  tally.calls += 1;
  const [server, token] =
    userOf(action) === "origin" ? [env.ORIGIN, env.ORIGIN_PASSWORD] : [env.SERVE, env.SERVE_TOKEN];
  const mailroom = createMailroom(
    http({
      url: "http://mailroom",
      token,
      timeout: TIMEOUT,
      fetch: (url, init) => server.fetch(url, init),
    }),
  );
  try {
    return (await mailroom.redeem({ secret, action, code })).verdict;
  } catch (error) {
    return (error as DatabaseError).code === "MAILROOM_AWAY" ? "away" : "silent";
  }
}
