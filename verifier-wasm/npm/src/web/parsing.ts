import type { Bytes } from "../token/types.js";
import {
  hasCodeTag,
  hasHeader,
  isBound,
  LENGTHS,
  tagLength,
  type Version,
  versionOf,
} from "../token/version.js";
import { decode } from "./encoding.js";

/** A well-formed token. Nothing about it is proven. */
export interface Parsed {
  readonly version: Version;
  /** Its number; 0 in v1, which does not say. */
  readonly action: number;
  readonly keyId: Bytes;
  readonly expiresAt: number;
  /** The browser that it is bound to; empty for one that is not bound. */
  readonly binding: Bytes;
  readonly secret: Bytes;
  /** What the tag or the signature covers: the header, the binding, and the secret. */
  readonly signed: Bytes;
  /** The tag of v1 and v2, or the signature of v3. */
  readonly tag: Bytes;
  /** The tag of the code of v2; empty where there is none. */
  readonly codeTag: Bytes;
}

const HEADER = 14;
const BINDING = 16;
const SECRET = 32;
const LAST_SECOND = 253_402_300_799;

/** Reads a token in its one spelling (token-format.md, "One token, one spelling"). */
export function parse(token: string): Parsed | undefined {
  const bytes = LENGTHS.includes(token.length) && decode(token);
  if (!bytes) return undefined;
  const version = versionOf(token);
  const isV1 = !hasHeader(version);
  const bound = isBound(token);
  const start = isV1 ? 0 : HEADER + (bound ? BINDING : 0);
  const end = start + SECRET;
  const covered = end + tagLength(version);
  const codeTag = bytes.slice(covered);
  const header = new DataView(bytes.buffer);
  const action = isV1 ? 0 : (bytes[1] as number) & 127;
  const expiresAt = isV1 ? 0 : header.getUint32(6) * 2 ** 32 + header.getUint32(10);
  if (!isV1) {
    if (bytes[0] !== version || expiresAt > LAST_SECOND) return undefined;
    if (action === 0 || (bytes[1] as number) > 127 !== bound) return undefined;
    // What every verifier knows: the first action has no code, the second one has.
    if (hasCodeTag(version) && action < 3 && codeTag.length > 0 !== (action === 2))
      return undefined;
  }
  return {
    version,
    action,
    keyId: bytes.slice(2, 6),
    expiresAt,
    binding: isV1 ? bytes.slice(0, 0) : bytes.slice(HEADER, start),
    secret: bytes.slice(start, end),
    signed: bytes.slice(0, end),
    tag: bytes.slice(end, covered),
    codeTag,
  };
}
