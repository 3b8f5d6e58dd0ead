import type { InvalidArgumentError } from "../errors/errors.js";
import type { KnownAction } from "../token/known_actions.js";
import { readActions } from "./further_actions.js";
import { UsageError } from "./usage_error.js";

export const HELP = `Usage: mailroom-verifier TOKEN --action activate|recover [--code 01234]
                         [--binding HEX] [--key-file FILE]
                         [--further-action NAME=NUMBER:PATH:DIGITS]...

Shows what a token consists of and whether it is genuine: its secret, in
hexadecimal, and whether its signature matches the one that it should have.

  TOKEN            the token; - reads tokens from standard input, one a line,
                   each with its code after a space if it has one
  --action ACTION  what the link is about to do: activate, recover or the name
                   of a further action
  --code DIGITS    the code that belongs to a recovery
  --binding HEX    the browser that opens the link, as the database has it: 32
                   hexadecimal characters; a bound link works in no other one
  --key-file FILE  keys, one a line, each of which may have signed; blank lines
                   and lines that begin with # do not count
  --further-action NAME=NUMBER:PATH:DIGITS
                   an action of your own, such as invite=4:/invite:0; DIGITS are
                   those of its code, 0 for none; may be given several times
  --help           print this
  --version        print the version

The key is that of MAILROOM_SECRET_KEY (64 hexadecimal characters), or those of
--key-file or of MAILROOM_KEY_FILE. It is no argument, because everybody on the
machine can read those.

Ends with 0 if every token is genuine and, in version 2, not expired; 1 if one
is not; 2 if there is no verdict, as after a wrong call. Only the database knows
whether a token was used, and whether one of version 1 has expired.
`;

/** What to judge. */
export interface Command {
  readonly token: string;
  readonly action: KnownAction;
  readonly code: string | undefined;
  readonly binding: Uint8Array | undefined;
  readonly keyFile: string | undefined;
}

const OPTIONS = ["--action", "--code", "--binding", "--key-file", "--further-action"] as const;
type Option = (typeof OPTIONS)[number];

/**
 * One token in 64 begins with a dash, one in 4,096 with two;
 * every argument that is that long is a token.
 */
const LONGEST_OPTION = 40;

/** Reads the arguments behind the program's name. */
export function parseArguments(given: readonly string[]): Command | "help" | "version" {
  const values = new Map<Option | "TOKEN", string>();
  const further: string[] = [];
  const set = (name: Option | "TOKEN", value: string | undefined): void => {
    if (value === undefined) throw new UsageError(`${name} needs a value; see --help`);
    if (name === "--further-action") return void further.push(value);
    if (values.has(name)) throw new UsageError(`${name} is given twice`);
    values.set(name, value);
  };
  const rest = [...given];
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    const option = OPTIONS.find((name) => argument === name || argument?.startsWith(`${name}=`));
    if (argument === "--help") return "help";
    else if (argument === "--version") return "version";
    else if (argument === "--") for (const token of rest.splice(0)) set("TOKEN", token);
    else if (option === argument) set(option, rest.shift());
    else if (option) set(option, argument.slice(option.length + 1));
    else if (argument === "-" || !argument.startsWith("-") || argument.length > LONGEST_OPTION)
      set("TOKEN", argument);
    else throw new UsageError("there is an option that is not known; see --help");
  }
  const [token, action] = [values.get("TOKEN"), values.get("--action")];
  if (token === undefined) throw new UsageError("there is no token; see --help");
  return {
    token,
    action: known(action, further),
    code: values.get("--code"),
    binding: bindingOf(values.get("--binding")),
    keyFile: values.get("--key-file"),
  };
}

/** The bytes of a binding, which is no secret. */
function bindingOf(text: string | undefined): Uint8Array | undefined {
  if (text === undefined) return undefined;
  if (!/^[0-9a-f]{32}$/i.test(text))
    throw new UsageError("--binding must be 32 hexadecimal characters");
  return Buffer.from(text, "hex");
}

/** The action that is named, of those that every installation has and the further ones. */
function known(name: string | undefined, further: readonly string[]): KnownAction {
  // Without a prototype, to which `__proto__` would write.
  const definitions: Record<string, unknown> = Object.create(null);
  for (const text of further) {
    const [, own, number, path, digits] = /^(\w+)=(\d{1,3}):([^:]*):(\d{1,3})$/.exec(text) ?? [];
    if (own === undefined) {
      throw new UsageError(
        "--further-action must be NAME=NUMBER:PATH:DIGITS, such as invite=4:/invite:0",
      );
    }
    if (own in definitions) throw new UsageError(`--further-action defines ${own} twice`);
    definitions[own] = { number: Number(number), path, digits: Number(digits) };
  }
  let message = "";
  try {
    const actions = readActions(further.length > 0 ? definitions : undefined);
    const found = actions.find(name);
    if (found) return found;
    const names = ["activate", "recover", ...Object.keys(definitions)].join(" or ");
    message = `--action must be ${names}: what the link is about to do`;
  } catch (error) {
    // By its reason, because every entry shares the classes by the file `errors.js` beside it.
    const { reason, message: said } = error as InvalidArgumentError;
    if (reason !== "ERR_INVALID_ARGUMENT") throw error;
    message = `--further-action: ${said}`;
  }
  throw new UsageError(message);
}
