import type { Action } from "../types.js";
import { UsageError } from "./usage_error.js";

export const HELP = `Usage: mailroom-verifier TOKEN --action activate|recover [--code 01234] [--key-file FILE]

Shows what a token consists of and whether it is genuine: its secret, in
hexadecimal, and whether its signature matches the one that it should have.

  TOKEN            the token; - reads tokens from standard input, one a line,
                   each with its code after a space if it has one
  --action ACTION  what the link is about to do: activate or recover
  --code DIGITS    the code that belongs to a recovery
  --key-file FILE  keys, one a line, each of which may have signed; blank lines
                   and lines that begin with # do not count
  --help           print this
  --version        print the version

The key is that of MAILROOM_SECRET_KEY (64 hexadecimal characters), or those of
--key-file or of MAILROOM_KEY_FILE. It is no argument, because everybody on the
machine can read those.

Ends with 0 if every token is genuine, 1 if one is not, 2 if the command was
called in the wrong way. A genuine token may have expired or been used: of
version 1 only the database knows.
`;

/** What to judge. */
export interface Command {
  readonly token: string;
  readonly action: Action;
  readonly code: string | undefined;
  readonly keyFile: string | undefined;
}

const OPTIONS = ["--action", "--code", "--key-file"] as const;
type Option = (typeof OPTIONS)[number];

/** One token in 64 begins with a dash, one in 4,096 with two; every argument that is that long is a token. */
const LONGEST_OPTION = 40;

/** Reads the arguments behind the program's name. */
export function parseArguments(given: readonly string[]): Command | "help" | "version" {
  const values = new Map<Option | "TOKEN", string>();
  const set = (name: Option | "TOKEN", value: string | undefined): void => {
    if (value === undefined) throw new UsageError(`${name} needs a value; see --help`);
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
  if (action !== "activate" && action !== "recover") {
    throw new UsageError("--action is activate or recover: what the link is about to do");
  }
  return { token, action, code: values.get("--code"), keyFile: values.get("--key-file") };
}
