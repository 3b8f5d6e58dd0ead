// The field for a new password, and the shape that one has to have (NIST SP 800-63B-4, section
// 3.1.1.2): its length in code points, and nothing about which characters it is made of.

import { described } from "../arguments/described.js";
import { readOptions } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { PasswordField } from "./judgement.js";

/** What a single factor needs; 8 is the least beside a second one. */
const MIN = 15;
const MAX = 256;

const NAME = "password";

/** @internal The option `password`, read once. */
export interface ReadPassword {
  readonly actions: readonly unknown[];
  readonly minLength: number;
  readonly maxLength: number;
}

/** @internal */
export function readPassword(given: unknown): ReadPassword | undefined {
  if (given === undefined) return undefined;
  const [actions = ["recover"], minLength = MIN, maxLength = MAX] = readOptions(given, [
    "actions",
    "minLength",
    "maxLength",
  ]);
  const isBetween = (value: unknown, least: number, most: number) =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
  // 1,024 characters fit into the most bytes of a form, whatever they are.
  if (!isBetween(maxLength, 64, 1_024) || !isBetween(minLength, 8, maxLength as number)) {
    throw new InvalidArgumentError(
      "password.minLength must be a whole number from 8, password.maxLength one from 64 to 1024, " +
        "and not below it",
    );
  }
  const names = listOf(actions);
  if (!names.every((name) => typeof name === "string" && name !== "")) {
    throw new InvalidArgumentError(
      `password.actions must be a list such as ["recover"], not ${described(actions)}`,
    );
  }
  return { actions: names, minLength: minLength as number, maxLength: maxLength as number };
}

function listOf(given: unknown): readonly unknown[] {
  try {
    if (Array.isArray(given) && given.length > 0) return [...given];
  } catch {
    // A list that cannot be read.
  }
  return [undefined];
}

/**
 * Whether the form has no password of the right shape. One that it has is left in its normal form,
 * by which it is the same from every keyboard.
 */
export function lacksPassword(
  fields: URLSearchParams,
  { minLength, maxLength }: ReadPassword,
): boolean {
  const [given = "", ...others] = fields.getAll(NAME);
  // Of so many units the normal form is longer than any password may be. To sort many marks on one
  // letter takes a time that grows with their square.
  const password = given.slice(0, 5_000).normalize("NFC");
  const { length } = [...password];
  // Hash functions end at a NUL, and what has no UTF-8 arrives as U+FFFD: such a password would be
  // one of many.
  const isWrong =
    others.length > 0 ||
    length < minLength ||
    length > maxLength ||
    /[\p{Cc}\ufffd]/u.test(password);
  if (!isWrong) fields.set(NAME, password);
  return isWrong;
}

/** The field, and a box that shows what is typed, which needs script. */
export function passwordField(
  { label, hint, show, minLength }: PasswordField,
  isWrong: boolean,
  escaped: (text: string) => string,
): string {
  const invalid = isWrong ? ' aria-invalid="true"' : "";
  // Without `maxlength`, by which browsers cut what is pasted. A spelling checker may send away
  // what is shown.
  return `<p><label for="${NAME}">${escaped(label)}</label>
<input id="${NAME}" name="${NAME}" type="password" autocomplete="new-password"
 minlength="${minLength}" autocapitalize="none" spellcheck="false" required
 aria-describedby="password-hint"${invalid}>
<small id="password-hint">${escaped(hint)}</small></p>
<p hidden><label><input id="password-show" type="checkbox" autocomplete="off">
${escaped(show)}</label></p>
`;
}
