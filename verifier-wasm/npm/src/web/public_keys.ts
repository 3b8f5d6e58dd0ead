import { InvalidArgumentError, PlatformUnavailableError, VerifierError } from "../errors/errors.js";
import type { Bytes } from "../token/types.js";
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

/** The bytes of a key given as text or as 32 bytes, if they are one. */
export function readPublicKey(given: string | Uint8Array): Bytes | undefined {
  const isText = typeof given === "string";
  const bytes = isText
    ? /^mrpk_.{43}$/.test(given)
      ? decode(given.slice(5))
      : undefined
    : Uint8Array.from(given);
  return bytes && isPublicKey(bytes) ? bytes : undefined;
}

/** The option `fallback`. */
export function readFallback(given: unknown): (() => unknown) | undefined {
  if (given !== undefined && typeof given !== "function") {
    throw new InvalidArgumentError(
      'the option fallback must be a function: () => import("mailroom-verifier/public")',
    );
  }
  return given as (() => unknown) | undefined;
}

/** Public keys: tokens of v3, whose signatures the platform judges, or the fallback. */
export function publicKeys(fallback: (() => unknown) | undefined): Kind<PublicKey> {
  return {
    isPublic: true,
    prepare: async (bytes) => ({ id: await hash("v3 key id", bytes, 4), bytes }),
    async isSigned(key, parsed, token) {
      const { tag, signed } = parsed;
      if (!isJudgeable(tag)) return false;
      if (!(await isStrict())) {
        if (!fallback) throw unavailable();
        return judgedBy(fallback, key, parsed, token);
      }
      key.imported ??= await importKey(key.bytes);
      return (await verifies(key.imported, tag, behind("mailroom/v3 link\0", signed))) === true;
    },
    // No signature of v3 covers a code.
    isCode: async () => false,
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
  const actions =
    action > 2 ? { any: { number: action, path: "/any", digits: 0 } as const } : undefined;
  try {
    const { createVerifier } = (await fallback()) as WebFallback;
    const judging = createVerifier({ keys: bytes, actions, clock: () => 0 });
    if (!("signatures" in judging)) throw new TypeError("it has no verifiers of public keys");
    const { ok, reason } = judging.tryVerifyLink(token, { action: "activate" });
    return ok === true || reason === "ERR_TOKEN_ACTION" || reason === "ERR_TOKEN_EXPIRED";
  } catch (cause) {
    if (cause instanceof VerifierError) throw cause;
    throw new PlatformUnavailableError("the fallback cannot be loaded, or is no such entry", {
      cause,
    });
  }
}
