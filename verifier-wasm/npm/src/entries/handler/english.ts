/**
 * The link handler in English and in the languages that it is given, for bundlers that do not
 * split: it never loads others.
 *
 * @module
 */

import { atCaller } from "../../arguments/caller.js";
import type { LinkHandler } from "../../handler/link_handler.js";
import type { HandlerOptions } from "../../handler/options.js";
import { makeHandler } from "../../handler/serving.js";

export type { LinkHandler } from "../../handler/link_handler.js";

/**
 * The same as that of `mailroom-verifier/handler`, whose other functions go with it; its pages
 * speak English and what the option `texts` has.
 *
 * @throws InvalidArgumentError
 * @example
 * import { de } from "mailroom-verifier/languages";
 *
 * const handler = createLinkHandler({ verifier, store, redeem, texts: { de } });
 */
export function createLinkHandler<Further extends string = never>(
  options: HandlerOptions<Further>,
): LinkHandler<Further> {
  return atCaller(createLinkHandler, () => makeHandler(options));
}
