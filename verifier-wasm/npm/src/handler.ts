/**
 * A ready handler for the pages that links of mails lead to: shows a button on GET, uses the link on POST. It takes a
 * `Request` and returns a `Response`, so it runs in every framework.
 *
 * @module
 */

import { atCaller } from "./caller.js";
import { type BrowserBinding, bindingFor } from "./handler/browser.js";
import { makeNodeListener, type NodeListener } from "./handler/node_listener.js";
import type { HandlerOptions } from "./handler/options.js";
import { type LinkHandler, makeHandler } from "./handler/serving.js";

export type { CodeCheck, GuardedVerifier, GuardOptions } from "./guard_options.js";
export type { BrowserBinding } from "./handler/browser.js";
export type { Judgement, PageName, Problem, Verdict } from "./handler/judgement.js";
export type { NodeListener, NodeRequest, NodeResponse } from "./handler/node_listener.js";
export type { Directive, HandlerOptions, Page, RedeemableLink } from "./handler/options.js";
export type { LinkHandler } from "./handler/serving.js";
export type { ActionTexts, Message, OwnTexts, Texts } from "./handler/texts.js";
export type { TokenStore } from "./token_store.js";

/**
 * Makes a handler of all links of a site, or of one action. Make it once.
 *
 * @throws InvalidArgumentError
 * @example
 * const handler = createLinkHandler({ verifier, store, redeem: ({ secret }) => database.activate(secret) });
 * const response = await handler(request);
 */
export function createLinkHandler<Further extends string = never>(
  options: HandlerOptions<Further>,
): LinkHandler<Further> {
  return atCaller(createLinkHandler, () => makeHandler(options));
}

/**
 * The same handler for `node:http`, Express and Fastify. Mount it before whatever reads bodies.
 *
 * @throws InvalidArgumentError
 * @example
 * app.all("/activate", toNodeListener(handler));
 */
export function toNodeListener(handler: (request: Request) => Promise<Response>): NodeListener {
  return atCaller(toNodeListener, () => makeNodeListener(handler));
}

/**
 * The binding of the browser that asks for a link, which works in that one alone; elsewhere the handler asks for the code, so show
 * the code where the link is asked for. Call it there, and never where links are opened.
 *
 * @param cookies the header `Cookie` of the request
 * @example
 * const { binding, setCookie } = await bindBrowser(request.headers.get("Cookie"));
 */
export function bindBrowser(cookies: string | null | undefined): Promise<BrowserBinding> {
  return bindingFor(cookies);
}
