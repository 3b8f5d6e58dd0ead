// The checks of docs/reference/token-format.md in their order, and which of them a token fails.
// Done in this page: of v3 everything, with the public key; of v1 and v2 the shape alone, since
// what is left needs the shared key, which no page may hold.

import type { VerificationReason } from "mailroom-verifier/errors";
import {
  createVerifier,
  decodeUnverified,
  type PublicVerifier,
  type UnverifiedToken,
} from "mailroom-verifier/public";

import { type Action, FURTHER, type Further } from "../../edge/actions.ts";
import { FORMATS } from "../../edge/formats.ts";

export type State = "passed" | "failed" | "open";

export interface Check {
  readonly name: string;
  readonly state: State;
  readonly note: string;
}

export interface Judgement {
  readonly verdict: "good" | "bad" | "open";
  readonly words: string;
  readonly checks: readonly Check[];
  readonly parts: UnverifiedToken | undefined;
  /** What the checks took in this page, in microseconds. */
  readonly microseconds: number;
}

const NAMES = ["shape", "signature", "action", "expiry"] as const;

/** The compiler refuses a reason that is missing. */
const FAILS_AT = {
  ERR_TOKEN_MALFORMED: "shape",
  ERR_TOKEN_SIGNATURE: "signature",
  ERR_TOKEN_ACTION: "action",
  ERR_TOKEN_EXPIRED: "expiry",
  // A link alone is refused for none of these.
  ERR_TOKEN_OTHER_BROWSER: "signature",
  ERR_CODE_UNCHECKABLE: "signature",
  ERR_CODE_REQUIRED: "signature",
  ERR_CODE_MALFORMED: "signature",
  ERR_CODE_MISMATCH: "signature",
  ERR_LINK_UNCHECKABLE: "signature",
} as const satisfies Readonly<Record<VerificationReason, (typeof NAMES)[number]>>;

const NOTES: Readonly<Record<(typeof NAMES)[number], string>> = {
  shape: "length, alphabet, last bits, version and action byte",
  signature: "made with a key of the ring, over header and secret",
  action: "what it is to be used for",
  expiry: "its last second is not over",
};

export function makeJudge(
  publicKeys: readonly string[],
): (token: string, action: Action) => Judgement {
  const verifier = createVerifier({ keys: publicKeys, actions: FURTHER });
  return (token, action) => judge(verifier, token, action);
}

function judge(verifier: PublicVerifier<Further>, token: string, action: Action): Judgement {
  const parts = partsOf(token);
  if (parts !== undefined && !FORMATS[parts.version].isPublic) return onlyShape(parts, token);
  const started = performance.now();
  const result = verifier.tryVerifyLink(token, { action });
  const microseconds = (performance.now() - started) * 1000;
  const failed = result.ok ? undefined : FAILS_AT[result.reason];
  const words = result.ok ? "Genuine and valid" : `Refused: ${result.reason}`;
  return { verdict: result.ok ? "good" : "bad", words, checks: upTo(failed), parts, microseconds };
}

/** Everything before the check that failed has passed, nothing after it was looked at. */
function upTo(failed: (typeof NAMES)[number] | undefined): Check[] {
  const last = failed === undefined ? NAMES.length : NAMES.indexOf(failed);
  return NAMES.map((name, at) => ({
    name,
    state: at < last ? "passed" : at === last ? "failed" : "open",
    note: at > last ? "not looked at any more" : NOTES[name],
  }));
}

function onlyShape(parts: UnverifiedToken, token: string): Judgement {
  const started = performance.now();
  decodeUnverified(token);
  const microseconds = (performance.now() - started) * 1000;
  const why = "needs the shared key, which no page may hold: the edge judges it";
  const { hasHeader } = FORMATS[parts.version];
  const key = `a v${parts.version} token ${why}`;
  const checks: Check[] = [
    { name: "shape", state: "passed", note: NOTES.shape },
    { name: "signature", state: "open", note: key },
    {
      name: "action",
      state: "open",
      note: hasHeader ? NOTES.action : "part of what is signed",
    },
    {
      name: "expiry",
      state: "open",
      note: hasHeader ? NOTES.expiry : `v${parts.version} carries none: only the database knows`,
    },
  ];
  return {
    verdict: "open",
    words: "Well-formed; this page cannot say more",
    checks,
    parts,
    microseconds,
  };
}

function partsOf(token: string): UnverifiedToken | undefined {
  try {
    return decodeUnverified(token);
  } catch {
    return undefined;
  }
}
