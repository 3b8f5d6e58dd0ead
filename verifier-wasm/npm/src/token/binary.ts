import type { Bytes } from "./types.js";

/** The bytes that the characters of a text are, each of which is below U+0100. */
export function bytesOf(text: string): Bytes {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/**
 * The bytes that a token spells which is known to be one: other texts are read as `atob` reads
 * them, or make it throw.
 */
export function bytesIn(token: string): Bytes {
  return bytesOf(atob(token.replaceAll("-", "+").replaceAll("_", "/")));
}
