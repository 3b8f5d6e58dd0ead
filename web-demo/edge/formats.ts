// What the versions of the signature format can do, as far as the demonstration shows it
// (docs/reference/token-format.md). No other file compares a version with a number.

export type Version = 1 | 2 | 3;

export interface Format {
  /** Whether a token says its action and expiry, so that a link is judged before its code. */
  readonly hasHeader: boolean;
  /** Whether the edge can check a code; else only the database can. */
  readonly hasCodeTag: boolean;
  /** Whether a public key verifies, which a page may hold. */
  readonly isPublic: boolean;
}

export const FORMATS: Readonly<Record<Version, Format>> = {
  1: { hasHeader: false, hasCodeTag: false, isPublic: false },
  2: { hasHeader: true, hasCodeTag: true, isPublic: false },
  3: { hasHeader: true, hasCodeTag: false, isPublic: true },
};
