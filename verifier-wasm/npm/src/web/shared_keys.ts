import {
  CodeMalformedError,
  CodeMismatchError,
  CodeRequiredError,
  CodeUncheckableError,
  LinkUncheckableError,
  TokenMalformedError,
  TokenSignatureError,
} from "../errors/errors.js";
import type { Bytes } from "../token/types.js";
import { hasCodeTag, hasHeader } from "../token/version.js";
import { areSame, behind, decodeHexadecimal } from "./encoding.js";
import type { Kind } from "./factory.js";
import { onPlatform } from "./platform.js";
import type { Refusal } from "./verdict.js";

/** What is derived from a shared key (token-format.md, "Version 2"). */
interface SharedKey {
  readonly id: Bytes;
  readonly v1: CryptoKey;
  readonly link: CryptoKey;
  readonly code: CryptoKey;
}

const HASH = "SHA-256";

/** The bytes of a key that is given as text or in bytes, if it is one. */
export function sharedKeyOf(key: string | Uint8Array): Bytes | undefined {
  return typeof key === "string" ? decodeHexadecimal(key) : Uint8Array.from(key);
}

/** Shared keys: tokens of v1 and v2. */
export const SHARED_KEYS: Kind<SharedKey> = {
  refuses({ version, action: number, codeTag }, { action, code }, isLink, { actions, accepted }) {
    const digits = actions.list[number] as number;
    const hasCode = codeTag.length > 0;
    if (hasHeader(version) && (digits === 255 || (hasCodeTag(version) && hasCode !== digits > 0))) {
      return TokenMalformedError;
    }
    if (!hasHeader(version) && !isLink) {
      // The code is part of what is signed.
      const fault = action.number > 2 ? TokenSignatureError : faultOf(action.digits, code);
      if (fault) return fault;
    }
    if (!accepted.includes(version)) return TokenSignatureError;
    return !hasHeader(version) && isLink ? LinkUncheckableError : undefined;
  },
  prepare: (bytes) =>
    onPlatform(async (subtle) => {
      const root = await subtle.importKey("raw", bytes, "HKDF", false, ["deriveBits"]);
      const derived = async (label: string, length: number): Promise<Bytes> => {
        const info = behind(`mailroom/v2 ${label}`);
        const salt = new Uint8Array();
        const algorithm = { name: "HKDF", hash: HASH, salt, info };
        return new Uint8Array(await subtle.deriveBits(algorithm, root, 8 * length));
      };
      const mac = (key: Bytes): Promise<CryptoKey> =>
        subtle.importKey("raw", key, { name: "HMAC", hash: HASH }, false, ["sign"]);
      return {
        id: await derived("key id", 4),
        v1: await mac(bytes),
        link: await mac(await derived("link", 32)),
        code: await mac(await derived("code", 32)),
      };
    }),
  async isSigned({ v1, link }, { version, secret, signed, tag }, { action, code }) {
    const covered = behind(`/${action.name}`, secret, behind(code ?? ""));
    const message = hasHeader(version) ? signed : covered;
    return areSame(await tagOf(hasHeader(version) ? link : v1, message), tag);
  },
  async refusesCode({ code: key }, { version, signed, codeTag }, digits, code) {
    const fault = hasHeader(version) ? faultOf(digits, code) : undefined;
    if (fault || !hasHeader(version) || code === undefined) return fault;
    const tag = await tagOf(key, behind("", signed, behind(code)));
    return areSame(tag.subarray(0, codeTag.length), codeTag) ? undefined : CodeMismatchError;
  },
};

/** Why a code is refused by its shape, of an action that has one of so many digits. */
function faultOf(digits: number, code: string | undefined): Refusal | undefined {
  if (digits === 0) return code === undefined ? undefined : CodeUncheckableError;
  if (code === undefined) return CodeRequiredError;
  return code.length === digits && /^\d+$/.test(code) ? undefined : CodeMalformedError;
}

async function tagOf(key: CryptoKey, message: Bytes): Promise<Bytes> {
  return new Uint8Array(await onPlatform((subtle) => subtle.sign("HMAC", key, message)));
}
