// The edge function: decides about links in front of the origin, and serves the pages.

import { actionOf } from "./actions.ts";
import { asset } from "./assets.ts";
import type { Environment } from "./environment.ts";
import { forward, problem } from "./forward.ts";
import { link } from "./link.ts";
import { errorPage } from "./page.ts";
import { guarded } from "./policy.ts";
import { Misconfigured, settingsOf } from "./settings.ts";
import { tally } from "./tally.ts";
import type { KeepAlive } from "./tries.ts";
import { verifiersOf } from "./verifiers.ts";

export { UsedToken } from "mailroom-verifier/stores/durable-object";

const LOCAL = ["127.0.0.1", "localhost"];

export default {
  async fetch(request, env, context) {
    try {
      return guarded(await route(request, env, (work) => context.waitUntil(work)));
    } catch (error) {
      return guarded(failure(error));
    }
  },
} satisfies ExportedHandler<Environment>;

function failure(error: unknown): Response {
  if (error instanceof Misconfigured) {
    console.error(`this edge function is not set up: ${error.message}`);
    const text = "Nothing was done. Those who run this site find the reason in its log.";
    return errorPage(500, "This site is not set up", text);
  }
  // Neither the message nor the address, which may hold a token.
  console.error("a request failed:", error instanceof Error ? error.name : typeof error);
  const text =
    "It is not known whether this worked. Try again in a moment: a link that was used says so.";
  return errorPage(500, "Something went wrong here", text);
}

async function route(request: Request, env: Environment, keepAlive: KeepAlive): Promise<Response> {
  const { hostname, pathname } = new URL(request.url);
  const action = actionOf(pathname);
  if (action !== undefined) return link(request, env, keepAlive, action);
  if (pathname.startsWith("/api/")) {
    // Where links are refused for broken keys, nobody shall be sent one.
    verifiersOf(env);
    return forward(request, env.ORIGIN, "origin", {
      Authorization: `Bearer ${env.ORIGIN_PASSWORD}`,
    });
  }
  if (pathname === "/keys.json") {
    // Public keys may be known to everybody; this is how the pages get them.
    return Response.json({ publicKeys: settingsOf(env).publicKeys });
  }
  // By another name than this machine's, somebody else's page could have
  // a browser press the buttons.
  if (env.STAGE !== undefined && LOCAL.includes(hostname) && pathname.startsWith("/demo/")) {
    return pathname === "/demo/edge"
      ? Response.json(tally)
      : forward(request, env.STAGE, "demonstration");
  }
  if (request.method !== "GET" && request.method !== "HEAD") {
    return problem(405, "Only GET is answered here.", { Allow: "GET, HEAD" });
  }
  return (
    (await asset(env, pathname)) ??
    errorPage(404, "There is no such page", "Nothing lies at this address.")
  );
}
