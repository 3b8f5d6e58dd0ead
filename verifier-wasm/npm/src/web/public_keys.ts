import {
  CodeUncheckableError,
  PlatformUnavailableError,
  TokenMalformedError,
  TokenSignatureError,
  VerifierError,
} from "../errors/errors.js";
import { DEFINED } from "../token/defined.js";
import type { Bytes } from "../token/types.js";
import { isPublic } from "../token/version.js";
import { invalid } from "../verifier/options.js";
import { importKey, isJudgeable, isPublicKey, isStrict, unavailable, verifies } from "./ed25519.js";
import { behind, decode } from "./encoding.js";
import type { Kind } from "./factory.js";
import type { Parsed } from "./parsing.js";
import { hash } from "./platform.js";
import type { WebFallback } from "./verifier.js";

/** A public key, by the id that tokens name it by. */
interface PublicKey {
  readonly id: Bytes;
  readonly bytes: Bytes;
  /** The platform's, once it was needed. */
  imported?: CryptoKey;
}

/** The bytes of a key that is given as text or in bytes, if it is one. */
export function publicKeyOf(key: string | Uint8Array): Bytes | undefined {
  let bytes: Bytes | undefined;
  if (typeof key !== "string") bytes = Uint8Array.from(key);
  else if (/^mrpk_.{43}$/.test(key)) bytes = decode(key.slice(5));
  return bytes && isPublicKey(bytes) ? bytes : undefined;
}

/**
 * Public keys: tokens of v3, whose signatures the platform judges, or the fallback, which is the
 * option of that name.
 */
export function publicKeys(fallback: unknown): Kind<PublicKey> {
  if (fallback !== undefined && typeof fallback !== "function") throw invalid("fallback");
  return {
    refuses({ version, action }, _, __, { actions }) {
      if (!isPublic(version)) return TokenSignatureError;
      return actions.list[action] === 255 ? TokenMalformedError : undefined;
    },
    prepare: async (bytes) => ({ id: await hash("v3 key id", bytes, 4), bytes }),
    async isSigned(key, parsed, { token }) {
      const { tag, signed } = parsed;
      if (!isJudgeable(tag)) return false;
      if (!(await isStrict())) {
        if (!fallback) throw unavailable();
        return judgedBy(fallback as () => unknown, key, parsed, token);
      }
      key.imported ??= await importKey(key.bytes);
      return (await verifies(key.imported, tag, behind("mailroom/v3 link\0", signed))) === true;
    },
    // No signature of v3 covers one.
    refusesCode: async (_, __, ___, code) =>
      code === undefined ? undefined : CodeUncheckableError,
  };
}

/**
 * Whether another entry of this package accepts the signature of a token. Action and expiry, which
 * it judges later than that, are judged here.
 */
async function judgedBy(
  fallback: () => unknown,
  { bytes }: PublicKey,
  { action }: Parsed,
  token: string,
): Promise<boolean> {
  const actions = action > 2 ? { [DEFINED]: [["any", action, 0] as const] } : undefined;
  try {
    const { createVerifier } = (await fallback()) as WebFallback;
    const judging = createVerifier({ keys: bytes, actions, clock: () => 0 });
    if (!("signatures" in judging)) throw new TypeError();
    const { ok, reason } = judging.tryVerifyLink(token, { action: "activate" });
    return ok === true || reason === "ERR_TOKEN_ACTION" || reason === "ERR_TOKEN_EXPIRED";
  } catch (cause) {
    if (cause instanceof VerifierError) throw cause;
    throw new PlatformUnavailableError("the fallback fails", { cause });
  }
}
