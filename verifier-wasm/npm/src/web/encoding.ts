// Bytes as text and texts as bytes, in the alphabets of keys, tokens and cookies.

import { bytesOf } from "../token/binary.js";
import type { Bytes } from "../token/types.js";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/**
 * The bytes that a text spells in base64url without padding. `undefined` for a text that is not
 * their one spelling: another character, or trailing bits that are not zero.
 */
export function decode(text: string): Bytes | undefined {
  const bytes = new Uint8Array((text.length * 3) >> 2);
  let buffer = 0;
  let bits = 0;
  let next = 0;
  for (const character of text) {
    const value = ALPHABET.indexOf(character);
    if (value < 0) return undefined;
    buffer = (buffer << 6) | value;
    bits += 6;
    if (bits > 7) {
      bits -= 8;
      bytes[next++] = buffer >> bits;
    }
  }
  return buffer & ((1 << bits) - 1) ? undefined : bytes;
}

/** Bytes in base64url without padding. */
export function encode(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replace(/[+/=]/g, (character) => ({ "+": "-", "/": "_" })[character] ?? "");
}

/** The bytes that 64 hexadecimal digits of either case spell. */
export function decodeHexadecimal(text: string): Bytes | undefined {
  if (!/^[\da-f]{64}$/i.test(text)) return undefined;
  return Uint8Array.from({ length: 32 }, (_, place) =>
    Number.parseInt(text.slice(2 * place, 2 * place + 2), 16),
  );
}

/** A text in ASCII, and bytes behind it. */
export function behind(text: string, ...parts: readonly Uint8Array[]): Bytes {
  return Uint8Array.from([bytesOf(text), ...parts].flatMap((part) => [...part]));
}

/** Whether they are the same bytes, of which all are compared in any case. */
export function areSame(one: Uint8Array, other: Uint8Array): boolean {
  let difference = one.length ^ other.length;
  for (let at = 0; at < one.length; at++) {
    difference |= (one[at] as number) ^ (other[at] as number);
  }
  return difference === 0;
}
