/**
 * Actions of your own, beside activating and recovering: for the option `actions` of verifiers, of
 * `createMailroom` and of tests.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import type { Defined } from "../token/defined.js";
import { define } from "../token/defining.js";
import type { FurtherAction } from "../token/types.js";

export type { Defined, FurtherActions } from "../token/defined.js";
export type { FurtherAction } from "../token/types.js";

/**
 * Checks further actions, by name, and returns a copy for the option `actions`. Define them once,
 * for all who take them. Names have lower-case letters, digits and `_`; no two have the same number
 * or path.
 *
 * @throws InvalidArgumentError
 * @example
 * const actions = defineActions({ vote: { number: 100, path: "/vote", digits: 6 } });
 * const verifier = createVerifier({ keys, actions });
 */
export function defineActions<const Definitions extends { readonly [name: string]: FurtherAction }>(
  definitions: Definitions,
): Defined<Definitions> {
  return atCaller(defineActions, () => define(definitions)) as Defined<Definitions>;
}
