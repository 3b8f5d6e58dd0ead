/**
 * What may stand around the digits of a code, in a class of a regular expression, also of the
 * attribute `pattern`.
 */
export const BETWEEN = "\\s\\p{P}\\p{S}\\p{M}\\p{Cf}";

const BETWEEN_ALL = new RegExp(`[${BETWEEN}]`, "gu");

/**
 * A code as digits from 0 to 9: people type and paste it with blanks, hyphens and what stood around
 * it (`*31943*.`), in full width, as emoji, or in the digits of their own script. Letters and other
 * numbers stay, so that a slip is not judged as another code.
 */
export function digitsOf(typed: string): string {
  // No code is that long with whatever is between its digits.
  if (typed.length > 64) return typed;
  return typed
    .replace(BETWEEN_ALL, "")
    .replace(/\p{Nd}/gu, (digit) => asciiOf(digit.normalize("NFKC")));
}

/** Unicode has the ten digits of each script one behind the other. */
function asciiOf(digit: string): string {
  const code = digit.codePointAt(0) as number;
  let value = 0;
  while (value < 9 && /\p{Nd}/u.test(String.fromCodePoint(code - value - 1))) value += 1;
  return String(value);
}
