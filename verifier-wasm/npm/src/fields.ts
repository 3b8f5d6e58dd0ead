import type { Action, Bytes } from "./types.js";
import { type Version, versionOf } from "./version.js";

/** What a token consists of. */
export interface Fields {
  readonly version: Version;
  readonly action: Action | undefined;
  readonly keyId: Bytes | undefined;
  readonly expiresAt: number | undefined;
  readonly secret: Bytes;
  readonly tag: Bytes;
}

const HEADER = 14;
const SECRET = 32;

/** Takes a well-formed token apart; nothing of it is proven by that. */
export function fieldsOf(token: string): Fields {
  const version = versionOf(token);
  const bytes = decode(token);
  const start = version === 1 ? 0 : HEADER;
  const end = start + SECRET;
  const header = new DataView(bytes.buffer);
  return {
    version,
    action: version === 1 ? undefined : bytes[1] === 1 ? "activate" : "recover",
    keyId: version === 1 ? undefined : bytes.slice(2, 6),
    expiresAt: version === 1 ? undefined : header.getUint32(6) * 2 ** 32 + header.getUint32(10),
    secret: bytes.slice(start, end),
    tag: bytes.slice(end, end + (version === 3 ? 64 : 32)),
  };
}

function decode(token: string): Bytes {
  const base64 = token.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
