/**
 * The guard without any WebAssembly module, for verifiers that another entry has made.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import { type Guard, makeGuard } from "../guard/guard.js";
import type { GuardOptions } from "../guard/options.js";

export type { RefusedRedemption } from "../errors/denial.js";
export type {
  Guard,
  Redeemed,
  RedeemedActivation,
  Redemption,
  TriedRedemption,
} from "../guard/guard.js";
export type { CodeCheck, GuardedVerifier, GuardOptions } from "../guard/options.js";
export type { TokenStore } from "../stores/token_store.js";
export type { VerifiedToken } from "../token/token.js";
export type { VerifiedLink } from "../verifier/link.js";

/**
 * Puts a verifier and a store of used tokens together to a guard, which lets a link through once
 * among all who share the store. It keeps no state, so it can be made for each request.
 *
 * @throws InvalidArgumentError
 * @example
 * const guard = createGuard({ verifier, store });
 * const redeemed = await guard.tryRedeem(form.get("token"), { action: "activate" });
 */
export function createGuard<Further extends string = never>(
  options: GuardOptions<Further>,
): Guard<Further> {
  return atCaller(createGuard, () => makeGuard(options));
}
