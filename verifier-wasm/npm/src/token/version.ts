/** The versions of the signature format. */
export type Version = 1 | 2 | 3;

/** The version of a well-formed token, which its length tells. */
export function versionOf(token: string): Version {
  if (token.length === 86) return 1;
  return token.length === 147 || token.length === 168 ? 3 : 2;
}

/** Whether a well-formed token is bound to a browser, which its length tells. */
export function isBound({ length }: string): boolean {
  return length === 126 || length === 146 || length === 168;
}
