// Signatures that implementations of Ed25519 judge differently: the twelve cases of Chalkias,
// Garillot and Nikolaenko, "Taming the many EdDSAs", made for links of v3. The arithmetic is of the
// Edwards curve of RFC 8032, in extended coordinates.

import { bytes, hex } from "./tokens.mjs";

const P = 2n ** 255n - 19n;
export const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

const mod = (number, by = P) => ((number % by) + by) % by;

function power(base, exponent) {
  let result = 1n;
  for (let square = mod(base), rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % P;
    square = (square * square) % P;
  }
  return result;
}

const inverse = (number) => power(number, P - 2n);
const D = mod(-121665n * inverse(121666n));
const ROOT = power(2n, (P - 1n) / 4n);

/** The point with this y and an even x, if there is one. */
function pointOf(y) {
  const [u, v] = [mod(y * y - 1n), mod(D * y * y + 1n)];
  let x = mod(u * v ** 3n * power(u * v ** 7n, (P - 5n) / 8n));
  if (mod(v * x * x - u) !== 0n) x = mod(x * ROOT);
  if (mod(v * x * x - u) !== 0n) return undefined;
  if (x & 1n) x = mod(-x);
  return [x, y, 1n, mod(x * y)];
}

function sum([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const [a, b] = [mod((y1 - x1) * (y2 - x2)), mod((y1 + x1) * (y2 + x2))];
  const [c, d] = [mod(2n * D * t1 * t2), mod(2n * z1 * z2)];
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
}

function times(factor, point) {
  let result = [0n, 1n, 1n, 0n];
  for (let double = point, rest = factor; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = sum(result, double);
    double = sum(double, double);
  }
  return result;
}

const BASE = pointOf(mod(4n * inverse(5n)));

export const littleEndian = (number) => bytes(number.toString(16).padStart(64, "0")).reverse();

export const numberOf = (encoded) => BigInt(`0x${hex(Uint8Array.from(encoded).reverse())}`);

function encoded([x, y, z]) {
  const [affineX, affineY] = [x, y].map((one) => mod(one * inverse(z)));
  return littleEndian(affineY | ((affineX & 1n) << 255n));
}

/** A point of order 8, of which the others of small order are multiples. */
const TORSION = (() => {
  for (let y = 2n; ; y += 1n) {
    const point = pointOf(y);
    const small = point && times(ORDER, point);
    // Twice a point of order 8 is one of order 4, whose x is not 0.
    if (small && mod(times(2n, small)[0]) !== 0n) return small;
  }
})();

/** What encodes a point of small order: the canonical encodings, and all others. */
export const SMALL = [
  ...Array.from({ length: 8 }, (_, factor) => encoded(times(BigInt(factor), TORSION))),
  ...[1n, P - 1n].map((y) => littleEndian(y | (1n << 255n))),
  ...[P, P + 1n].flatMap((y) => [littleEndian(y), littleEndian(y | (1n << 255n))]),
];

/** Other encodings that are not reduced. */
export const UNREDUCED = Array.from({ length: 17 }, (_, more) =>
  littleEndian(P + 2n + BigInt(more)),
);

async function hash(algorithm, ...parts) {
  const all = Uint8Array.from(parts.flatMap((part) => [...part]));
  return new Uint8Array(await crypto.subtle.digest(algorithm, all));
}

const ascii = (text) => Uint8Array.from(text, (character) => character.charCodeAt(0));

export function base64url(given) {
  const base64 = btoa(String.fromCharCode(...given));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The id that tokens name a key by. */
export async function keyIdOf(publicKey) {
  return (await hash("SHA-256", ascii("mailroom/v3 key id\0"), publicKey)).slice(0, 4);
}

/**
 * Every case: `{ name, publicKey, token, result }`, of activations that never end; `result` is
 * `"valid"`, `"invalid"`, or `"key"` where the key is refused.
 */
export async function disputedCases() {
  const scalar = 5n ** 100n % ORDER;
  const pure = encoded(times(scalar, BASE));
  const cases = [];

  /** The signed bytes of a link that names this key; another `attempt` is another link. */
  async function linkOf(publicKey, attempt) {
    const header = Uint8Array.of(
      3,
      1,
      ...(await keyIdOf(publicKey)),
      0,
      0,
      0,
      58,
      255,
      244,
      65,
      127,
    );
    return Uint8Array.of(...header, ...new Uint8Array(32).fill(attempt));
  }

  const challengeOf = async (r, publicKey, signed) =>
    mod(numberOf(await hash("SHA-512", r, publicKey, ascii("mailroom/v3 link\0"), signed)), ORDER);

  /**
   * A link with a signature by the key `scalar · B + torsion · T`, whose R has `ofR` for its part
   * of small order, or is `ofR` itself, for the first link whose challenge `fits`.
   */
  async function add(name, result, { torsion, ofR, fits = () => true, more = 0n, isWhole = true }) {
    const ownScalar = isWhole ? scalar : 0n;
    const point = sum(times(ownScalar, BASE), times(torsion, TORSION));
    const publicKey = encoded(point);
    const nonce = 3n ** 90n % ORDER;
    const isPoint = typeof ofR === "bigint";
    const r = isPoint ? encoded(sum(times(nonce, BASE), times(ofR, TORSION))) : ofR;
    for (let attempt = 0; ; attempt += 1) {
      const signed = await linkOf(publicKey, attempt);
      const challenge = await challengeOf(r, publicKey, signed);
      if (!fits(challenge)) continue;
      const s = mod((isPoint ? nonce : 0n) + challenge * ownScalar, ORDER) + more;
      const token = base64url([...signed, ...r, ...littleEndian(s)]);
      cases.push({ name, publicKey, token, result });
      return;
    }
  }

  const cancels = (ofR, torsion) => (challenge) => (ofR + challenge * torsion) % 8n === 0n;
  const remains = (ofR, torsion) => (challenge) => (ofR + challenge * torsion) % 8n !== 0n;

  await add("an ordinary one", "valid", { torsion: 0n, ofR: 0n });
  await add("a small key, a small R", "key", { torsion: 1n, ofR: SMALL[0], isWhole: false });
  await add("a small key, a mixed R", "key", { torsion: 1n, ofR: 1n, isWhole: false });
  await add("a mixed key, a small R, the equation holds", "invalid", {
    ...{ torsion: 1n, ofR: SMALL[3] },
    fits: cancels(3n, 1n),
  });
  await add("a mixed key, a mixed R, the equation holds", "valid", {
    ...{ torsion: 1n, ofR: 3n },
    fits: cancels(3n, 1n),
  });
  await add("a mixed key, a mixed R, with the cofactor alone", "invalid", {
    ...{ torsion: 1n, ofR: 3n },
    fits: remains(3n, 1n),
  });
  await add("a mixed key, an R without, with the cofactor alone", "invalid", {
    ...{ torsion: 1n, ofR: 0n },
    fits: (challenge) => challenge % 8n !== 0n,
  });
  await add("a mixed key, an R without, the equation holds", "valid", {
    ...{ torsion: 1n, ofR: 0n },
    fits: (challenge) => challenge % 8n === 0n,
  });
  await add("a pure key, a mixed R, with the cofactor alone", "invalid", { torsion: 0n, ofR: 2n });
  await add("an S above the order", "invalid", { torsion: 0n, ofR: 0n, more: ORDER });
  await add("an S far above the order", "invalid", { torsion: 0n, ofR: 0n, more: 8n * ORDER });
  for (const [place, r] of SMALL.entries()) {
    await add(`R is encoding ${place} of a small point`, "invalid", { torsion: 0n, ofR: r });
    const signed = await linkOf(r, 0);
    const token = base64url([...signed, ...r, ...new Uint8Array(32)]);
    cases.push({
      name: `the key is encoding ${place} of a small point`,
      publicKey: r,
      token,
      result: "key",
    });
  }
  for (const [place, r] of UNREDUCED.entries()) {
    await add(`R is encoding ${place} that is not reduced`, "invalid", { torsion: 0n, ofR: r });
    for (const sign of [0, 128]) {
      const publicKey = Uint8Array.from(r, (byte, at) => (at === 31 ? byte | sign : byte));
      const token = base64url([...(await linkOf(publicKey, 0)), ...pure, ...new Uint8Array(32)]);
      const name = `the key is encoding ${place} that is not reduced, of sign ${sign}`;
      cases.push({ name, publicKey, token, result: "key" });
    }
  }
  for (let y = 0n; y < 32n; y += 1n) {
    // Half of them are on the curve.
    const publicKey = littleEndian(y);
    const isKey = y > 1n && pointOf(y) !== undefined;
    const token = base64url([...(await linkOf(publicKey, 0)), ...pure, ...new Uint8Array(32)]);
    cases.push({
      name: `the key has y = ${y}`,
      publicKey,
      token,
      result: isKey ? "invalid" : "key",
    });
  }
  return cases;
}
