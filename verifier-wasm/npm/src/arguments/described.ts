/**
 * What a value is, for a message: in full where it is short and can be no secret, else its kind.
 */
export function described(value: unknown): string {
  if (value === null || value === undefined || typeof value === "boolean") return String(value);
  if (typeof value === "number") return `the number ${value}`;
  if (typeof value === "string") {
    return /^[\w .-]{1,16}$/.test(value)
      ? `the string "${value}"`
      : `a string of ${value.length} characters`;
  }
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
