import { wordsOf } from "../errors/denial.js";
import type { VerificationError, VerificationReason } from "../errors/errors.js";
import type { Refused } from "../token/types.js";

/** Why a token is refused: the class of the error. */
export interface Refusal {
  readonly reason: VerificationReason;
  readonly kind: "visitor";
  new (message: string): VerificationError;
}

/** What was proven, or why nothing was. */
export type Verdict<Proven extends object> = Proven | Refusal;

/** Whether nothing was proven: of what is proven nothing is a function. */
export function isRefusal(verdict: object): verdict is Refusal {
  return typeof verdict === "function";
}

/** Returns what was proven, or throws the error. */
export function orThrow<Proven extends object>(verdict: Verdict<Proven>): Proven {
  if (isRefusal(verdict)) throw new verdict(wordsOf(verdict.reason));
  return verdict;
}

/** The same as a result, which has what was proven under a name. */
export function asResult<Name extends string, Proven extends object>(
  name: Name,
  verdict: Verdict<Proven>,
): ({ readonly ok: true } & { readonly [Key in Name]: Proven }) | Refused {
  if (!isRefusal(verdict)) return { ok: true, [name]: verdict } as never;
  const { reason, kind } = verdict;
  return { ok: false, reason, kind, message: wordsOf(reason) };
}
