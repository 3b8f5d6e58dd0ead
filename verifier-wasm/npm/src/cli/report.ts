import type { Engine, PreparedKey } from "../engine.js";
import { TokenMalformedError } from "../errors.js";
import { OK, refusal, SIGNATURE } from "../status.js";
import type { Action } from "../types.js";

/** A token, and what it is expected to be good for. */
export interface Question {
  readonly token: string;
  readonly action: Action;
  readonly code: string | undefined;
  /** The characters of the line that begins with the token, where that was cut. */
  readonly length?: number;
}

/** What a person wants to see of a token, whatever is wrong with it. */
export function report(engine: Engine, keys: readonly PreparedKey[], question: Question): Answer {
  const { token, action, code } = question;
  const parts: [string, string][] = [];
  try {
    const { secret, tag } = engine.fields(token);
    parts.push(["secret", hexadecimal(secret)], ["signature", hexadecimal(tag)]);
  } catch (error) {
    if (!(error instanceof TokenMalformedError)) throw error;
    return answer([["verdict", `not valid: ${error.code}: ${fault(question)}`]], false);
  }
  const verdicts = keys.map((key) => engine.verify(token, action, code, key));
  // Without a key that fits, the current one is the one that should have signed.
  const fitting = Math.max(verdicts.indexOf(OK), 0);
  const status = verdicts[fitting] ?? SIGNATURE;
  const key = keys[fitting];
  if (key && (status === OK || status === SIGNATURE)) {
    parts.push(["recomputed", hexadecimal(engine.expectedTag(token, action, code, key))]);
  }
  if (keys.length > 1 && status === OK) parts.push(["key", `${fitting + 1} of ${keys.length}`]);
  parts.push(["verdict", status === OK ? "valid" : notValid(status)]);
  return answer(parts, status === OK);
}

interface Answer {
  readonly text: string;
  readonly genuine: boolean;
}

function answer(parts: readonly [string, string][], genuine: boolean): Answer {
  return { text: parts.map(([name, value]) => `${name.padEnd(12)}${value}\n`).join(""), genuine };
}

function notValid(status: number): string {
  const { code, message } = refusal(status);
  return `not valid: ${code}: ${message}`;
}

const CHARACTERS = 86;

/** What is wrong with a text that is no token. */
function fault({ token, length }: Question): string {
  const characters = Math.max(token.length, length ?? 0);
  if (characters !== CHARACTERS) return `it has ${characters} characters, a token of version 1 has ${CHARACTERS}`;
  const at = token.search(/[^A-Za-z0-9_-]/);
  if (at < 0) return `its last character is none of A, Q, g and w, which have zeros in the bits that are not used`;
  const unit = token.charCodeAt(at).toString(16).toUpperCase().padStart(4, "0");
  return `its character ${at + 1} is U+${unit}, and only A to Z, a to z, 0 to 9, - and _ stand in a token`;
}

function hexadecimal(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
