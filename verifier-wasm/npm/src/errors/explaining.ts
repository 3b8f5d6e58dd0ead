import { HELP, OF_MESSAGES } from "./generated/texts.js";

/** What arguments are, by the names that messages such as `wrong: clockTolerance` have. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  accept: 'a list of "v1" and "v2", or of "v3" where keys are public',
  action: '"activate", "recover", or an action of the option actions',
  actions:
    "what defineActions of mailroom-verifier/actions makes of an object such as " +
    '{ invite: { number: 4, path: "/invite", digits: 0 } }. Names have lower-case letters, ' +
    "digits and _; numbers are 3 to 127, each once; paths have letters, digits, -, ., _ and ~, " +
    "each once; digits are 0 for no code, or 5 to 8",
  clock: "a function that returns seconds since the Unix epoch, not milliseconds",
  clockTolerance: "whole seconds from 0 to 999",
  dangerouslyAllowSecretInBrowser: "true or false",
  fallback: 'a function such as () => import("mailroom-verifier/public")',
  keys:
    "a key, a list of 1 to 1024, or a function that returns one of these. A shared key is 64 " +
    "hexadecimal digits or 32 bytes; a public one is mrpk_ and 43 characters of base64url, or 32 " +
    "bytes, and a point of the curve",
  signatures: '"webassembly", or left out',
};

/** What keys of other shapes mostly are, by what a message says of the shape. */
const SHAPES: readonly (readonly [RegExp, string])[] = [
  [/^(undefined|null)$/, "the key is $1: set it, or give a function for the first use"],
  [/^0$/, "the key is empty"],
  [/^mrsk_/, "this is a private key, for the signer only"],
  [/^mrpk_48$/, "this is a public key: use mailroom-verifier/public"],
  [/^(mrpk_\d+|65)$/, "there may be white space around the key: trim it"],
  [/^4[34]$/, "this may be base64, which is to be decoded to bytes, or lack mrpk_ in front"],
  [/^64$/, "a shared key is for mailroom-verifier, on a server, and is of hexadecimal digits"],
  [/^(\d+)$/, "the key has $1 characters"],
];

/** What an error or a refusal of this package means, and what to do about it. */
export function explanation({
  reason,
  message,
}: {
  readonly reason: string;
  readonly message: string;
}): string {
  const [, name = "", shape = ""] = /^wrong: (\w+)(?:[[\]\d]*: (.*))?/.exec(message) ?? [];
  const [, text] = SHAPES.find(([pattern]) => pattern.test(shape)) ?? [];
  const parts = [
    message,
    text?.replace("$1", shape),
    Object.hasOwn(ARGUMENTS, name) && `${name} is ${ARGUMENTS[name]}`,
    Object.hasOwn(OF_MESSAGES, message) && OF_MESSAGES[message],
    Object.hasOwn(HELP, reason) && HELP[reason],
  ];
  return parts.filter((part) => part).join("; ");
}
