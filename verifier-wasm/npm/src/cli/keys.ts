import { closeSync, openSync, readSync } from "node:fs";
import type { Engine, PreparedKey } from "../wasm/engine.js";
import { UsageError } from "./usage_error.js";

/** Longer files are refused: a thousand keys fit. */
const LONGEST_FILE = 65_536;

type Environment = Readonly<Record<string, string | undefined>>;

/** The keys of the file, if one is named, else that of the environment. */
export function loadKeys(
  engine: Engine,
  file: string | undefined,
  environment: Environment,
): readonly PreparedKey[] {
  const { MAILROOM_SECRET_KEY: secretKey, MAILROOM_KEY_FILE: keyFile } = environment;
  if (file !== undefined) return loadFile(engine, file);
  if (secretKey && keyFile)
    throw new UsageError("MAILROOM_SECRET_KEY and MAILROOM_KEY_FILE are both set; unset one");
  if (keyFile) return loadFile(engine, keyFile);
  if (secretKey) return [prepare(engine, secretKey, "MAILROOM_SECRET_KEY")];
  throw new UsageError(
    "there is no key; set MAILROOM_SECRET_KEY, or name a file that holds one with --key-file",
  );
}

function loadFile(engine: Engine, file: string): readonly PreparedKey[] {
  const keys = read(file)
    .split("\n")
    .map((line, index) => ({ text: line.trim(), what: `line ${index + 1} of the key file` }))
    .filter(({ text }) => text !== "" && !text.startsWith("#"))
    // The collector's file may hold keys of every kind.
    .filter(({ text }) => !/^mr[sp]k_/.test(text))
    .map(({ text, what }) => prepare(engine, text, what));
  if (keys.length === 0) throw new UsageError("the key file has no shared key; write one a line");
  return keys;
}

function prepare(engine: Engine, text: string, what: string): PreparedKey {
  const prepared = engine.prepare(text);
  if (!prepared)
    throw new UsageError(`${what} is no key: a shared key is 64 hexadecimal characters`);
  return prepared;
}

/** Reads no more than a key file can have, whatever the name stands for. */
function read(file: string): string {
  try {
    const descriptor = openSync(file, "r");
    try {
      const buffer = Buffer.alloc(LONGEST_FILE + 1);
      let length = 0;
      for (let more = -1; more !== 0 && length < buffer.length; length += more) {
        more = readSync(descriptor, buffer, length, buffer.length - length, null);
      }
      if (length <= LONGEST_FILE) return buffer.toString("latin1", 0, length);
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    throw new UsageError(
      `the key file cannot be read: ${(error as NodeJS.ErrnoException).code ?? "it is no file"}`,
    );
  }
  throw new UsageError(
    `the key file is longer than ${LONGEST_FILE} bytes; it holds one key a line and nothing else`,
  );
}
