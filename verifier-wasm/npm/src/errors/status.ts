import type { Refused } from "../token/types.js";
import { isPublic, type Version } from "../token/version.js";
import { denied, wordsOf } from "./denial.js";
import { TokenMalformedError, type VerificationError, WasmUnavailableError } from "./errors.js";
import { FOR_PUBLIC_KEY, FOR_SHARED_KEY, KEY_UNKNOWN } from "./generated/sentences.js";
import {
  type Class,
  CODE_MALFORMED,
  CODE_UNCHECKABLE,
  meanings,
  OF_PUBLIC_KEY,
  OF_SHARED_KEY,
  SIGNATURE,
  UNKNOWN_KEY,
} from "./generated/statuses.js";

export * from "./generated/statuses.js";

/** The call succeeded. */
export const OK = 0;
/** The module has left the signature to the platform. */
export const PENDING_SIGNATURE = 254;

/** The status of a version that is not among those that are accepted. */
export function unaccepted(version: Version, accepted: readonly Version[]): number {
  if (isPublic(version)) return OF_PUBLIC_KEY;
  // A verifier has one kind of keys.
  return isPublic(accepted[0] as Version) ? OF_SHARED_KEY : SIGNATURE;
}

/** Whether a token is malformed, which is found before a key is tried. */
export function isMalformed(status: number): boolean {
  return status !== OK && meaning(status) === TokenMalformedError;
}

/** Whether the code of a v1 token is at fault, which is found before a key is tried. */
export function isAboutCode(status: number): boolean {
  return status >= CODE_UNCHECKABLE && status <= CODE_MALFORMED;
}

function meaning(status: number): Class {
  const found = meanings[status - 1];
  if (!found) throw new WasmUnavailableError("the module is of another version");
  return found;
}

/** What the handler tells apart by its message; the others are kept once they were made. */
const messages = /* @__PURE__ */ new Map([
  [OF_PUBLIC_KEY, FOR_PUBLIC_KEY],
  [OF_SHARED_KEY, FOR_SHARED_KEY],
  [UNKNOWN_KEY, KEY_UNKNOWN],
]);

/** The message of a status: the reason in words, or one of its own. */
function messageOf(status: number): string {
  let message = messages.get(status);
  if (message === undefined) {
    message = wordsOf(meaning(status).reason);
    messages.set(status, message);
  }
  return message;
}

/** The error of a status other than {@link OK}. */
export function refusal(status: number): VerificationError {
  const Refusal = meaning(status);
  return new Refusal(messageOf(status));
}

/** The same as a result. */
export function refused(status: number): Refused {
  return denied(meaning(status), messageOf(status));
}

/** Returns what was proven, or throws the error. */
export function orThrow<Proven>(verdict: Proven | number): Proven {
  if (typeof verdict === "number") throw refusal(verdict);
  return verdict;
}

/** The same as a result. */
export function asResult<Token>(
  verdict: Token | number,
): { readonly ok: true; readonly token: Token } | Refused {
  return typeof verdict === "number" ? refused(verdict) : { ok: true, token: verdict };
}
