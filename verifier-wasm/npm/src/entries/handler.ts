/**
 * A ready handler for the pages that links of mails lead to: shows a button on GET, uses the link
 * on POST. It takes a `Request` and returns a `Response`, so it runs in every framework.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import { type AskingRequest, type BrowserBinding, bindingFor } from "../handler/browser.js";
import { LATE_LANGUAGES } from "../handler/late_languages.js";
import type { LinkHandler } from "../handler/link_handler.js";
import { makeNodeListener, type NodeListener } from "../handler/node_listener.js";
import type { HandlerOptions } from "../handler/options.js";
import { makeHandler } from "../handler/serving.js";

export type { CodeCheck, GuardedVerifier, GuardOptions } from "../guard/options.js";
export type { AskingRequest, BrowserBinding } from "../handler/browser.js";
export type {
  Away,
  Judgement,
  PageName,
  PasswordField,
  Problem,
  RefusalOutcome,
  RefusalReason,
  Verdict,
  Way,
} from "../handler/judgement.js";
export { publicOutcomeOf as outcomeOf } from "../handler/judgement.js";
export type { LinkHandler, RequestContext } from "../handler/link_handler.js";
export type { NodeListener, NodeRequest, NodeResponse } from "../handler/node_listener.js";
export type {
  Again,
  CheckedForm,
  Directive,
  HandlerOptions,
  OwnPages,
  Page,
  PasswordOptions,
  RedeemableLink,
  RenewableLink,
  SiteOptions,
} from "../handler/options.js";
export type { ActionTexts, Message, OwnTexts, PasswordTexts, Texts } from "../handler/texts.js";
export type { TokenStore } from "../stores/token_store.js";

/**
 * Makes a handler of all links of a site, or of one action. Make it once.
 *
 * @throws InvalidArgumentError
 * @example
 * const handler = createLinkHandler({
 *   verifier,
 *   store,
 *   redeem: ({ secret }) => database.activate(secret),
 * });
 * const response = await handler(request);
 */
export function createLinkHandler<Further extends string = never>(
  options: HandlerOptions<Further>,
): LinkHandler<Further> {
  return atCaller(createLinkHandler, () => makeHandler(options, LATE_LANGUAGES));
}

/**
 * The same handler for `node:http`, Express, Nest and Fastify. Mount it before whatever parses
 * bodies; what a parser has left in `request.body` or `request.rawBody` is used.
 *
 * @throws InvalidArgumentError
 * @example
 * app.all("/activate", toNodeListener(handler));
 */
export function toNodeListener(handler: (request: Request) => Promise<Response>): NodeListener {
  return atCaller(toNodeListener, () => makeNodeListener(handler));
}

/**
 * The binding of the browser that asks for a link, which works in that one alone; elsewhere the
 * handler asks for digits, so show those of `mailroom.browser_code` where the link is asked for.
 * Call it there, and never where links are opened.
 *
 * Nothing for a request that no page of this site has sent, by the rule of the handler: answer it
 * with 403.
 *
 * @param request of the Fetch API or of Node
 * @param options `origins`: as those of the handler
 * @throws InvalidArgumentError
 * @example
 * const bound = await bindBrowser(request);
 * if (!bound) return new Response(null, { status: 403 });
 */
export function bindBrowser(
  request: AskingRequest,
  options?: { readonly origins?: readonly string[] | undefined },
): Promise<BrowserBinding | undefined> {
  return bindingFor(request, options);
}
