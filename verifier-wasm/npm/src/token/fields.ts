import type { Action, Bytes } from "./types.js";
import { hasHeader, isBound, tagLength, type Version, versionOf } from "./version.js";

/** The fields of a token. */
export interface Fields {
  readonly version: Version;
  readonly action: Action | undefined;
  readonly actionNumber: number | undefined;
  readonly keyId: Bytes | undefined;
  readonly expiresAt: number | undefined;
  readonly binding: Bytes | undefined;
  readonly secret: Bytes;
  readonly tag: Bytes;
}

const BUILT_IN: readonly (Action | undefined)[] = [undefined, "activate", "recover"];
const HEADER = 14;
const BINDING = 16;
const SECRET = 32;

/** The fields of a well-formed token, without any proof. */
export function fieldsOf(token: string): Fields {
  const version = versionOf(token);
  const bytes = decode(token, 0, (token.length * 3) >> 2);
  const bound = isBound(token);
  const headed = hasHeader(version);
  const start = headed ? HEADER + (bound ? BINDING : 0) : 0;
  const end = start + SECRET;
  const header = new DataView(bytes.buffer);
  // The other bit says that the token is bound.
  const actionNumber = (bytes[1] as number) & 127;
  return {
    version,
    action: headed ? BUILT_IN[actionNumber] : undefined,
    actionNumber: headed ? actionNumber : undefined,
    keyId: headed ? bytes.slice(2, 6) : undefined,
    expiresAt: headed ? header.getUint32(6) * 2 ** 32 + header.getUint32(10) : undefined,
    binding: bound ? bytes.slice(HEADER, start) : undefined,
    secret: bytes.slice(start, end),
    tag: bytes.slice(end, end + tagLength(version)),
  };
}

/** The 32 bytes by which the database finds the row of a well-formed token. */
export function secretOf(token: string): Bytes {
  // The header of 14 bytes ends inside of four characters, that of 30 bytes behind four.
  if (isBound(token)) return decode(token, HEADER + BINDING, SECRET);
  return hasHeader(versionOf(token))
    ? decode(token, 12, SECRET + 2).slice(2)
    : decode(token, 0, SECRET);
}

/**
 * Some bytes of a token, from the start of four characters on. Not by `atob`, which takes forty
 * times as long in Node: every redemption reads a secret.
 */
function decode(token: string, start: number, length: number): Bytes {
  const bytes = new Uint8Array(length);
  let buffer = 0;
  let next = 0;
  for (let at = (start / 3) * 4; next < length; at++) {
    buffer = (buffer << 6) | bits(token.charCodeAt(at));
    // Every character but the first of four completes a byte.
    if (at & 3) bytes[next++] = buffer >> (6 - 2 * (at & 3));
  }
  return bytes;
}

/** The six bits that a character of base64url stands for. */
export function bits(character: number): number {
  if (character > 96) return character - 71;
  if (character > 64) return character === 95 ? 63 : character - 65;
  return character === 45 ? 62 : character + 4;
}
