// What token-format.md demands of a signature of v3 and platforms judge differently. The arithmetic
// is of public values alone: keys and signatures, whose time tells nothing.

import { PlatformUnavailableError } from "../errors/errors.js";
import type { Bytes } from "../token/types.js";
import { strictCases } from "../verifier/strict_cases.js";
import { onPlatform } from "./platform.js";

/** The prime of the field, and the order of the base point (RFC 8032, section 5.1). */
const PRIME = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

/** The number that 32 bytes spell, the last one first. */
function numberOf(bytes: Uint8Array): bigint {
  return bytes.reduceRight((number, byte) => number * 256n + BigInt(byte), 0n);
}

/**
 * Whether a point that is encoded so can be a key or the R of a signature: its y is reduced, and it
 * is none of the eight points of small order. Whether it is on the curve is not judged.
 */
function isLarge(encoded: Uint8Array): boolean {
  const y = numberOf(encoded) % 2n ** 255n;
  const square = (y * y) % PRIME;
  // The points of order 1 and 2 have 1 for the square of y, those of order 4 have 0; of those of
  // order 8 the sum of the squares of x and y is 0, which the curve makes an equation in y.
  const ofOrder8 = (121_665n * square * square - 2n * 121_666n * square + 121_666n) % PRIME;
  return y < PRIME && square > 1n && ofOrder8 !== 0n;
}

/** Whether 32 bytes are a public key: the encoding of a point of the curve, not of small order. */
export function isPublicKey(encoded: Uint8Array): boolean {
  if (!isLarge(encoded)) return false;
  const y = numberOf(encoded) % 2n ** 255n;
  const square = (y * y) % PRIME;
  // The square of x is (y² - 1) / (dy² + 1), where d is -121665 / 121666: it has a root if its
  // product with the square of the denominator has one, which Euler's criterion tells.
  let base = ((square - 1n) * (121_666n - 121_665n * square) * 121_666n) % PRIME;
  if (base < 0n) base += PRIME;
  let power = 1n;
  for (let exponent = (PRIME - 1n) / 2n; exponent > 0n; exponent /= 2n) {
    if (exponent % 2n === 1n) power = (power * base) % PRIME;
    base = (base * base) % PRIME;
  }
  return power === 1n;
}

/** Whether the platform may judge a signature: its S is reduced, its R is too, and not small. */
export function isJudgeable(signature: Uint8Array): boolean {
  return isLarge(signature.subarray(0, 32)) && numberOf(signature.subarray(32)) < ORDER;
}

export function importKey(key: Bytes): Promise<CryptoKey> {
  return onPlatform((subtle) => subtle.importKey("raw", key, "Ed25519", false, ["verify"]));
}

export function verifies(key: CryptoKey, signature: Bytes, message: Bytes): Promise<boolean> {
  return onPlatform((subtle) => subtle.verify("Ed25519", key, signature, message));
}

/** Whether the platform judges signatures as it must. */
let found: boolean | undefined;

/** Asks the platform, once, for the verdicts in which platforms differ. */
export async function isStrict(): Promise<boolean> {
  // Not the promise is kept, since workerd settles none for another request.
  found ??= await judgesRightly();
  return found;
}

async function judgesRightly(): Promise<boolean> {
  try {
    const [key, cases] = strictCases();
    const imported = await importKey(key);
    for (const [signature, message, isRight] of cases) {
      if ((await verifies(imported, signature, message)) !== isRight) return false;
    }
    return true;
  } catch {
    return false;
  }
}

export function unavailable(): PlatformUnavailableError {
  return new PlatformUnavailableError("no strict Ed25519");
}
