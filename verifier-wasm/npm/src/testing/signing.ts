// What signs, as token-format.md has it: the collector's work, in JavaScript and for tests alone.

import type { Bytes } from "../token/types.js";
import { behind } from "../web/encoding.js";
import { hash, onPlatform } from "../web/platform.js";
import { SHARED_KEYS } from "../web/shared_keys.js";

/** What is signed of a link. */
export interface Signable {
  readonly number: number;
  readonly path: string;
  /** Nothing for an action without a code. */
  readonly code: string | undefined;
  readonly secret: Bytes;
  readonly expiresAt: number;
  /** Empty for a link that is not bound. */
  readonly binding: Bytes;
}

/** Signs links in every format with keys that exist in this object alone. */
export interface Keys {
  /** The 32 bytes of the shared key. */
  readonly shared: Bytes;
  /** The 32 bytes of the public key. */
  readonly public: Bytes;
  readonly sign: {
    readonly [Format in "v1" | "v2" | "v3"]: (link: Signable) => Promise<Bytes>;
  };
}

export function randomBytes(length: number): Bytes {
  return crypto.getRandomValues(new Uint8Array(length));
}

/** As many digits, each as likely as every other one. */
export function randomDigits(length: number): string {
  // 250 is the largest multiple of ten that a byte can be.
  let digits = "";
  while (digits.length < length) {
    const [byte = 250] = randomBytes(1);
    if (byte < 250) digits += byte % 10;
  }
  return digits;
}

/** Random keys. `ids`: whose ids the tokens of forged links name; by default their own. */
export async function makeKeys(ids?: Keys): Promise<Keys> {
  const pair = await onPlatform(
    (subtle) => subtle.generateKey("Ed25519", true, ["sign", "verify"]) as Promise<CryptoKeyPair>,
  );
  const open = new Uint8Array(
    await onPlatform((subtle) => subtle.exportKey("raw", pair.publicKey)),
  );
  const shared = randomBytes(32);
  const prepared = await SHARED_KEYS.prepare(shared);
  const { id } = ids ? await SHARED_KEYS.prepare(ids.shared) : prepared;
  const openId = await hash("v3 key id", ids?.public ?? open, 4);

  const mac = async (key: CryptoKey, message: Bytes): Promise<Bytes> =>
    new Uint8Array(await onPlatform((subtle) => subtle.sign("HMAC", key, message)));
  return {
    shared,
    public: open,
    sign: {
      async v1({ path, secret, code = "" }) {
        return behind("", secret, await mac(prepared.v1, behind(path, secret, behind(code))));
      },
      async v2(link) {
        const signed = headed(2, id, link);
        const tag = await mac(prepared.link, signed);
        if (link.code === undefined) return behind("", signed, tag);
        const ofCode = await mac(prepared.code, behind("", signed, behind(link.code)));
        return behind("", signed, tag, ofCode.subarray(0, 15));
      },
      async v3(link) {
        const signed = headed(3, openId, link);
        const message = behind("mailroom/v3 link\0", signed);
        const signature = await onPlatform((subtle) =>
          subtle.sign("Ed25519", pair.privateKey, message),
        );
        return behind("", signed, new Uint8Array(signature));
      },
    },
  };
}

/** The header of v2 and v3 with what follows it: what a tag or a signature covers. */
function headed(version: number, id: Bytes, { number, expiresAt, binding, secret }: Signable) {
  const header = new Uint8Array(14);
  const view = new DataView(header.buffer);
  header[0] = version;
  header[1] = binding.length > 0 ? number + 128 : number;
  header.set(id, 2);
  view.setBigUint64(6, BigInt(expiresAt));
  return behind("", header, binding, secret);
}
