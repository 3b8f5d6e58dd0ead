// What a link handler is to whoever calls it.

import type { Judgement } from "./judgement.js";

/**
 * What a runtime gives beside a request: its `waitUntil`, if it has one, lets go on what the answer
 * does not wait for. What a framework gives a route in its place is one, too.
 *
 * @example
 * export const GET = (request: Request) => ask(request, { waitUntil: after });
 */
// Not of optional members alone: TypeScript would take no other object for it.
export type RequestContext = object & {
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined;
};

/** What {@link createLinkHandler} returns. It needs no `this`. */
export interface LinkHandler<Further extends string = never> {
  /**
   * Answers a request, whatever it asks for. `context` is what the runtime gives beside it: if it
   * has a method `waitUntil`, what a press has begun goes on when the visitor leaves.
   */
  (request: Request, context?: object): Promise<Response>;
  /**
   * The same as data, for frameworks that render pages themselves: a POST uses the link as well. A
   * token in the address is answered by `moved`, a redirect after which a cookie of a minute has
   * it, so pages of a framework never have one in their address.
   */
  judge(request: Request, context?: object): Promise<Judgement<Further>>;
}
