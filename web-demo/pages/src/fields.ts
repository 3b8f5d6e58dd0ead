// Which bytes of a token are what, see docs/reference/token-format.md.

export interface Field {
  readonly name: string;
  /** The number of its colour. */
  readonly tint: number;
  readonly length: number;
}

const HEADER: readonly Field[] = [
  { name: "version", tint: 1, length: 1 },
  { name: "action", tint: 2, length: 1 },
  { name: "key id", tint: 3, length: 4 },
  { name: "expires at", tint: 4, length: 8 },
];
const BINDING: Field = { name: "browser", tint: 7, length: 16 };
const SECRET: Field = { name: "secret of the row", tint: 5, length: 32 };
const TAG: Field = { name: "tag (HMAC-SHA-256)", tint: 6, length: 32 };
const CODE_TAG: Field = { name: "tag of the code", tint: 7, length: 15 };
const SIGNATURE: Field = { name: "signature (Ed25519)", tint: 6, length: 64 };

/** No two have the same length, which alone tells the format. */
const LAYOUTS: readonly (readonly Field[])[] = [
  [SECRET, TAG],
  [...HEADER, SECRET, TAG],
  [...HEADER, SECRET, TAG, CODE_TAG],
  [...HEADER, BINDING, SECRET, TAG],
  [...HEADER, BINDING, SECRET, TAG, CODE_TAG],
  [...HEADER, SECRET, SIGNATURE],
  [...HEADER, BINDING, SECRET, SIGNATURE],
];

/** The fields, in order, or nothing for a length that no token has. */
export function fieldsOf(token: string): readonly Field[] | undefined {
  return LAYOUTS.find((layout) => {
    const bytes = layout.reduce((sum, { length }) => sum + length, 0);
    return token.length === Math.ceil((bytes * 4) / 3);
  });
}

/**
 * The bytes of base64url, read leniently, so that a token
 * that is refused can be drawn all the same.
 */
export function bytesOf(token: string): Uint8Array {
  const letters = token
    .replace(/[^\w-]/g, "A")
    .replaceAll("-", "+")
    .replaceAll("_", "/");
  const whole = letters.length % 4 === 1 ? letters.slice(0, -1) : letters;
  return Uint8Array.from(atob(whole), (letter) => letter.charCodeAt(0));
}
