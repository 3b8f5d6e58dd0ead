// The versions of the signature format, and what each can do (token-format.md). No other file
// compares a version with a number. These are functions and not a table, of which bundlers would
// keep all.

/** The versions of the signature format. */
export type Version = 1 | 2 | 3;

/** The text or link of a token, as far as its number of characters tells what it is. */
interface Sized {
  readonly length: number;
}

/**
 * The numbers of characters that tokens have. The handler has them once more, since each of its
 * bytes is loaded; `offline token_lengths` compares those.
 */
export const LENGTHS: readonly number[] = [86, 104, 124, 126, 146, 147, 168];

/** The version of a well-formed token, which its length tells. */
export function versionOf({ length }: Sized): Version {
  if (length === 86) return 1;
  return length === 147 || length === 168 ? 3 : 2;
}

/** Whether a well-formed token is bound to a browser, which its length tells. */
export function isBound({ length }: Sized): boolean {
  return length === 126 || length === 146 || length === 168;
}

/** What has the characters of a token, and as few or many as one may have: for an expression. */
export const roughly = (): string => `[\\w-]{${Math.min(...LENGTHS)},${Math.max(...LENGTHS)}}`;

/** Whether a token says its action, its key and its expiry, which else the database alone knows. */
export const hasHeader = (version: Version): boolean => version !== 1;

/** Whether a code has a tag of its own, so that a link is judged before its code is typed. */
export const hasCodeTag = (version: Version): boolean => version === 2;

/** Whether what is signed covers the code; else the database alone can check it. */
export const coversCode = (version: Version): boolean => version !== 3;

/** Whether a private key signs and a public key verifies. */
export const isPublic = (version: Version): boolean => version === 3;

/** The number of bytes of the tag or signature of a link. */
export const tagLength = (version: Version): number => (version === 3 ? 64 : 32);
