import { timingSafeEqual } from "node:crypto";
import type { VerificationError } from "../errors/errors.js";
import { SENTENCES } from "../errors/generated/texts.js";
import {
  CODE_MISMATCH,
  isAboutCode,
  OK,
  OTHER_BROWSER,
  refusal,
  SIGNATURE,
} from "../errors/status.js";
import { fieldsOf } from "../token/fields.js";
import type { KnownAction } from "../token/known_actions.js";
import { hasHeader, isPublic, LENGTHS, versionOf } from "../token/version.js";
import { type Engine, NOT_JUDGED, type PreparedKey } from "../wasm/engine.js";

/** A token, and what it is expected to be good for. */
export interface Question {
  readonly token: string;
  readonly action: KnownAction;
  readonly code: string | undefined;
  /** Of the browser that opens the link. */
  readonly binding: Uint8Array | undefined;
  /** The number of characters of the whole token. `token` may be only its beginning. */
  readonly length?: number;
}

/** What a person wants to see of a token, whatever is wrong with it. */
export function report(engine: Engine, keys: readonly PreparedKey[], question: Question): Answer {
  const { token, action, code, binding } = question;
  const now = Math.floor(Date.now() / 1000);
  const verdicts = keys.map((key) => engine.verify(token, action, code, NOT_JUDGED, [key], now, 0));
  // Without a key that fits, the current one is the one that should have signed.
  const fitting = Math.max(
    verdicts.findIndex((verdict) => verdict !== SIGNATURE),
    0,
  );
  const found = verdicts[fitting] ?? SIGNATURE;
  const status = isElsewhere(token, binding, found) ? OTHER_BROWSER : found;
  const error = status === OK ? undefined : refusal(status);
  const sentence = SENTENCES[status - 1] as string;
  if (error?.reason === "ERR_TOKEN_MALFORMED") {
    return answer([["verdict", notValid(error, fault(question) ?? sentence)]]);
  }

  const { version, expiresAt, binding: bound, secret } = fieldsOf(token);
  const parts: Part[] = [["secret", hexadecimal(secret)]];
  if (bound) parts.unshift(["binding", hexadecimal(bound)]);
  if (expiresAt !== undefined) parts.unshift(["expires", new Date(expiresAt * 1000).toISOString()]);
  // The right value is never shown: whoever sees the report
  // of a forged token would hold a genuine one.
  if (!isPublic(version) && (status === OK || status === SIGNATURE)) {
    parts.push(["signature", status === OK ? "matches" : "differs"]);
  }
  if (error) return answer([...parts, ["verdict", notValid(error, sentence)]]);
  if (keys.length > 1) parts.push(["key", `${fitting + 1} of ${keys.length}`]);
  return { ...answer([...parts, ["verdict", "valid"]]), genuine: true };
}

/**
 * Whether a link is genuine and valid, which is judged before its browser,
 * and bound to another one.
 */
function isElsewhere(token: string, binding: Uint8Array | undefined, status: number): boolean {
  if (status !== OK && status !== CODE_MISMATCH && !isAboutCode(status)) return false;
  const { binding: bound } = fieldsOf(token);
  return bound !== undefined && !(binding && timingSafeEqual(bound, binding));
}

interface Answer {
  readonly text: string;
  readonly genuine: boolean;
}

type Part = readonly [name: string, value: string];

function answer(parts: readonly Part[]): Answer {
  return {
    text: parts.map(([name, value]) => `${name.padEnd(12)}${value}\n`).join(""),
    genuine: false,
  };
}

function notValid({ reason }: VerificationError, message: string): string {
  return `not valid: ${reason}: ${message}`;
}

/** The lengths of tokens, by version. */
function lengthsInWords(): string {
  const versions = [...new Set(LENGTHS.map((length) => versionOf({ length })))];
  const groups = versions.map((version, at) => {
    const lengths = LENGTHS.filter((length) => versionOf({ length }) === version).join(", ");
    const words = lengths.replace(/, (?=\d+$)/, " or ");
    return `${words} (${at === 0 ? "version " : ""}${version})`;
  });
  return `${groups.slice(0, -1).join(", ")}, or ${groups.at(-1)}`;
}

/** What is wrong with a text that is no token, as far as its characters show. */
function fault({ token, length }: Question): string | undefined {
  const characters = length ?? token.length;
  if (!LENGTHS.includes(characters)) {
    return `it has ${characters} characters, and a token has ${lengthsInWords()}`;
  }
  const at = token.search(/[^A-Za-z0-9_-]/);
  if (at >= 0) {
    // By number, because it may be one that a terminal obeys.
    const point = (token.codePointAt(at) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    const allowed = "only A to Z, a to z, 0 to 9, - and _ stand in a token";
    return `its character ${at + 1} is U+${point}, and ${allowed}`;
  }
  if (!hasHeader(versionOf({ length: characters })))
    return "its last character is none of A, Q, g and w, the only ones without surplus bits";
  return undefined;
}

function hexadecimal(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
