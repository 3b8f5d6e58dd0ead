/** What a key has to be, what one of the other kind looks like, and what to do with that. */
export type KeyKind = readonly [form: string, other: RegExp, advice: string];

export const SHARED: KeyKind = [
  "64 hexadecimal characters or 32 bytes",
  /^mrpk_/,
  "is public: use mailroom-verifier/public",
];

export const PUBLIC: KeyKind = [
  '"mrpk_" and 43 characters of base64url, or 32 bytes, and a point of the curve',
  /^[\da-f]{64}$/i,
  "is a shared one: use mailroom-verifier, on a server",
];

const FAULTS: readonly (readonly [RegExp, string])[] = [
  [/^$/, "is empty"],
  [/^\s|\s$/, "has white space around it: trim it"],
  [/^mrsk_/, "is a private key, for the signer only"],
  [/^[\w+/-]{43}=?$/, "is base64: decode it to bytes"],
];

/** What is wrong with this key, and what to do about it; shows nothing of the key. */
export function keyFault(key: unknown, [form, other, advice]: KeyKind): string {
  let fault = "has another type or length";
  if (key === undefined || key === null)
    fault = `is ${key}: set it, or give a function for the first use`;
  else if (typeof key === "string") {
    // Looked at no further than any key is long.
    const start = key.slice(0, 100);
    const [, found] = FAULTS.find(([pattern]) => pattern.test(start)) ?? [];
    fault = other.test(start) ? advice : (found ?? `has ${key.length} characters, or wrong ones`);
  }
  return `the key ${fault} (a key is ${form})`;
}
