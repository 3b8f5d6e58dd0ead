// The rules of a further action, which the database and the signers have, too.

/** How its name is spelt. */
export const NAME = /^[a-z][a-z0-9_]{0,62}$/;

/** The names of the actions that every verifier has, here and in the database. */
export const RESERVED = /^(activate|recover|activation|password_recovery)$/;

/** Whether it is a number in tokens that an installation may give. */
export function isNumber(number: unknown): number is number {
  return Number.isInteger(number) && (number as number) >= 3 && (number as number) <= 127;
}

/** Whether it is the path of a link. */
export function isPath(path: unknown): path is string {
  return (
    typeof path === "string" && path.length <= 255 && /^(\/(?!\.{1,2}(\/|$))[\w.~-]+)+$/.test(path)
  );
}

/** Whether a code may have so many digits; 0 for no code. */
export function isLength(digits: unknown): digits is number {
  return [0, 5, 6, 7, 8].includes(digits as number);
}

/** All of them. */
export function isDefinition(
  name: string,
  number: unknown,
  path: unknown,
  digits: unknown,
): boolean {
  const isNamed = NAME.test(name) && !RESERVED.test(name);
  return isNamed && isNumber(number) && isPath(path) && isLength(digits);
}
