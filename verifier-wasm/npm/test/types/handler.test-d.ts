// The handler. Nothing here runs.

import { createMemoryStore, createVerifier } from "mailroom-verifier";
import { defineActions } from "mailroom-verifier/actions";
import {
  type BrowserBinding,
  bindBrowser,
  createLinkHandler,
  type Judgement,
  type LinkHandler,
  type NodeListener,
  type RequestContext,
  outcomeOf,
  type RefusalOutcome,
  toNodeListener,
  type Verdict,
} from "mailroom-verifier/handler";
import { createVerifier as createPublicVerifier } from "mailroom-verifier/public";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(proof: Same<A, B>): void;

declare const request: Request;

const actions = defineActions({ invite: { number: 4, path: "/invite", digits: 0 } });
const verifier = createVerifier({ keys: () => "", actions });
const store = createMemoryStore({ capacity: 10 });

const handler = createLinkHandler({
  verifier,
  store,
  action: "invite",
  check({ action, fields }) {
    same<typeof action, "activate" | "recover" | "invite">(true);
    return fields.get("password") === "" ? { again: "Choose a password." } : undefined;
  },
  password: { actions: ["recover", "invite"], minLength: 8 },
  renewLink: ({ action, secret }) => [action, secret],
  site: { name: "A", newLink: { invite: "/again" } },
  language: () => undefined,
  countsAttempts: true,
  redeem({ action, secret, code, browserCode, bindingIsProven, fields }) {
    same<typeof browserCode, string | undefined>(true);
    same<typeof bindingIsProven, boolean>(true);
    same<typeof action, "activate" | "recover" | "invite">(true);
    same<typeof code, string | undefined>(true);
    fields.get("password");
    return secret.length === 32 ? "ok" : new Response(null, { status: 303 });
  },
  pages: {
    form: ({ title, nonce }, form) => title + nonce + form,
    done: "<p>{{title}}",
    invite: { done: ({ ways }) => ways[0]?.label, used: undefined },
  },
  texts: { de: { close: "Fertig.", actions: { invite: { button: "Los" } } } },
  policy: { "style-src": "'self'" },
  origins: ["https://app.example"],
  publicKeys: ["mrpk_"],
  onError: console.error,
});
same<typeof handler, LinkHandler<"invite">>(true);
const answers: (request: Request, context?: object) => Promise<Response> = handler;
answers(request, { params: {} });
const judged: Promise<Judgement<"invite">> = handler.judge(request);
const bound: Promise<BrowserBinding | undefined> = bindBrowser(request, {
  origins: ["https://app.example"],
});
bound.then((found) => found && found.binding.length + found.setCookie.length);
bindBrowser({ url: "/ask", headers: { host: "app.example" } });
const outcome: RefusalOutcome = outcomeOf("ERR_TOKEN_USED");
same<typeof outcome.status, number>(true);
// @ts-expect-error there is no such reason
outcomeOf("ERR_TOKEN_FORGED");
// @ts-expect-error the request, not the header
bindBrowser(request.headers.get("Cookie"));
// @ts-expect-error nothing is bound for a page of another site
bound.then(({ binding }) => binding);
judged.then(({ token, page }) => (page === "form" ? token?.length : undefined));
const listener: NodeListener = toNodeListener(handler);
listener satisfies (request: never, response: never) => void;

declare const ofRoute: { readonly params: Promise<object> };
declare const ofWorker: { waitUntil(promise: Promise<unknown>): void };
ofRoute satisfies RequestContext;
ofWorker satisfies RequestContext;
((_: Request, context?: RequestContext) => context) satisfies (
  request: Request,
  context: { params: Promise<object> },
) => unknown;
// @ts-expect-error what waits is a function
({ waitUntil: true }) satisfies RequestContext;

createLinkHandler({ verifier, store, redeem: async (): Promise<Verdict> => "away" });
createLinkHandler({ verifier, store, redeem: () => ({ again: "Choose a longer password." }) });
createLinkHandler({
  verifier: [verifier, createPublicVerifier({ keys: "mrpk_", actions })],
  store,
  redeem: () => "ok",
});
// @ts-expect-error an action that no verifier knows
createLinkHandler({ verifier, store, redeem: () => "ok", password: { actions: ["reset"] } });
// @ts-expect-error a check that says yes
createLinkHandler({ verifier, store, check: () => true, redeem: () => "ok" });
// @ts-expect-error what the database says is its verdict
createLinkHandler({ verifier, store, redeem: () => true });
// @ts-expect-error an action that the verifier does not know
createLinkHandler({ verifier, store, redeem: () => "ok", action: "delete" });
// @ts-expect-error a page that does not exist
createLinkHandler({ verifier, store, redeem: () => "ok", pages: { start: "" } });
// @ts-expect-error what nobody may change
createLinkHandler({ verifier, store, redeem: () => "ok", policy: { "frame-ancestors": "*" } });
