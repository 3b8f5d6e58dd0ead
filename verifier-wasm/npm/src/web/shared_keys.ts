import type { Bytes } from "../token/types.js";
import { hasHeader } from "../token/version.js";
import { areSame, behind, decodeHexadecimal } from "./encoding.js";
import type { Kind } from "./factory.js";
import { onPlatform } from "./platform.js";

/** What is derived from a shared key (FORMAT.md, "v2"). */
interface SharedKey {
  readonly id: Bytes;
  readonly v1: CryptoKey;
  readonly link: CryptoKey;
  readonly code: CryptoKey;
}

const HASH = "SHA-256";

/** The bytes of a key given as text or as 32 bytes, if they are one. */
export function readSharedKey(given: string | Uint8Array): Bytes | undefined {
  return typeof given === "string" ? decodeHexadecimal(given) : Uint8Array.from(given);
}

/** Shared keys: tokens of v1 and v2. */
export const SHARED_KEYS: Kind<SharedKey> = {
  isPublic: false,
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
  async isSigned({ v1, link }, { version, secret, signed, tag }, _, { name }, code) {
    const message = hasHeader(version) ? signed : behind(`/${name}`, secret, behind(code ?? ""));
    return areSame(await tagOf(hasHeader(version) ? link : v1, message), tag);
  },
  async isCode({ code: key }, { signed, codeTag }, code) {
    const tag = await tagOf(key, behind("", signed, behind(code)));
    return areSame(tag.subarray(0, codeTag.length), codeTag);
  },
};

async function tagOf(key: CryptoKey, message: Bytes): Promise<Bytes> {
  return new Uint8Array(await onPlatform((subtle) => subtle.sign("HMAC", key, message)));
}
