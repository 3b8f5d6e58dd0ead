// One verifier for each kind of key, and what each can say of a link
// before anybody presses a button.

import { createVerifier, decodeUnverified, type Verifier } from "mailroom-verifier";
import {
  KeyInvalidError,
  LinkUncheckableError,
  TokenMalformedError,
  type VerificationReason,
} from "mailroom-verifier/errors";
import {
  createVerifier as createPublicVerifier,
  type PublicVerifier,
} from "mailroom-verifier/public";
import { type Action, FURTHER, type Further } from "./actions.ts";
import type { Environment } from "./environment.ts";
import { FORMATS, type Version } from "./formats.ts";
import { Misconfigured, type Settings, settingsOf } from "./settings.ts";

export interface Verifiers {
  readonly shared: Verifier<Further>;
  readonly public: PublicVerifier<Further>;
}

export type Judgement =
  | {
      readonly ok: true;
      readonly version: Version;
      /** Seconds since the Unix epoch; v1 carries none. */
      readonly expiresAt: number | undefined;
      /** Whether anything was proven: of a v1 recovery nothing is before its code. */
      readonly proven: boolean;
    }
  | { readonly ok: false; readonly reason: VerificationReason };

let made: { readonly from: Settings; readonly verifiers: Verifiers } | undefined;

/**
 * Made once for the keys of the environment: public keys take some arithmetic to load.
 *
 * @throws Misconfigured
 */
export function verifiersOf(env: Environment): Verifiers {
  const from = settingsOf(env);
  if (made?.from !== from) {
    const verifiers = {
      shared: createVerifier({ keys: from.secretKeys, actions: FURTHER }),
      public: publicVerifier(from.publicKeys),
    };
    made = { from, verifiers };
  }
  return made.verifiers;
}

/** Of the right length, a key can still be no point of the curve. */
function publicVerifier(keys: readonly string[]): PublicVerifier<Further> {
  try {
    return createPublicVerifier({ keys, actions: FURTHER });
  } catch (error) {
    if (!(error instanceof KeyInvalidError)) throw error;
    const unfit = keys.findIndex((key) => !isPublicKey(key));
    throw new Misconfigured(`key ${unfit + 1} of MAILROOM_PUBLIC_KEYS is no Ed25519 public key`);
  }
}

function isPublicKey(key: string): boolean {
  try {
    createPublicVerifier({ keys: key });
    return true;
  } catch {
    return false;
  }
}

/** The version, which the length alone tells, or nothing if the text is no token. */
export function versionOf(token: string): Version | undefined {
  try {
    return decodeUnverified(token).version;
  } catch (error) {
    if (error instanceof TokenMalformedError) return undefined;
    throw error;
  }
}

export function judgeLink(env: Environment, token: string, action: Action): Judgement {
  const { shared, public: open } = verifiersOf(env);
  const version = versionOf(token);
  if (version === undefined) return { ok: false, reason: TokenMalformedError.reason };
  if (!FORMATS[version].hasHeader) {
    // Whoever answers v1 codes on a public route is an oracle,
    // so of a recovery only the shape is looked at.
    if (action === "recover") {
      return settingsOf(env).v1Recoveries
        ? { ok: true, version, expiresAt: undefined, proven: false }
        : { ok: false, reason: LinkUncheckableError.reason };
    }
    const verified = shared.tryVerify(token, { action });
    return verified.ok ? { ok: true, version, expiresAt: undefined, proven: true } : verified;
  }
  const found = (FORMATS[version].isPublic ? open : shared).tryVerifyLink(token, { action });
  return found.ok ? { ok: true, version, expiresAt: found.link.expiresAt, proven: true } : found;
}
