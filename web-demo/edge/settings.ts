// What the Worker was given, read once: keys are told apart strictly,
// so that a broken list is no shorter list.

import type { Environment } from "./environment.ts";

export interface Settings {
  readonly secretKeys: readonly string[];
  readonly publicKeys: readonly string[];
  /** Whether v1 recoveries go on to the database, although the edge cannot prove them. */
  readonly v1Recoveries: boolean;
}

/** The Worker cannot work as it was set up. The message is for the log, and holds no key. */
export class Misconfigured extends Error {
  override readonly name = "Misconfigured";
}

/** Shorter passwords can be guessed. */
const LEAST = 16;

let read: { readonly from: string; readonly settings: Settings } | undefined;

/** @throws Misconfigured */
export function settingsOf(env: Environment): Settings {
  const from = JSON.stringify([
    env.MAILROOM_SECRET_KEYS,
    env.MAILROOM_PUBLIC_KEYS,
    env.ORIGIN_PASSWORD,
    env.SERVE_TOKEN,
    env.V1_RECOVERIES,
  ]);
  if (read?.from !== from) read = { from, settings: readSettings(env) };
  return read.settings;
}

function readSettings(env: Environment): Settings {
  for (const name of ["ORIGIN_PASSWORD", "SERVE_TOKEN"] as const) {
    if ((env[name] ?? "").length < LEAST)
      throw new Misconfigured(`${name} has to be at least ${LEAST} characters`);
  }
  return {
    secretKeys: readKeys(
      env,
      "MAILROOM_SECRET_KEYS",
      /^[0-9a-f]{64}$/i,
      "64 hexadecimal characters",
    ),
    publicKeys: readKeys(
      env,
      "MAILROOM_PUBLIC_KEYS",
      /^mrpk_[\w-]{43}$/,
      "mrpk_ and 43 characters",
    ),
    v1Recoveries: readV1Recoveries(env),
  };
}

/** Off, unless somebody wants it. */
function readV1Recoveries({ V1_RECOVERIES: said = "refuse" }: Environment): boolean {
  if (said !== "refuse" && said !== "allow")
    throw new Misconfigured("V1_RECOVERIES is neither refuse nor allow");
  return said === "allow";
}

/** Between keys any blanks will do, line breaks included: lists are pasted and piped. */
function readKeys(
  env: Environment,
  variable: "MAILROOM_SECRET_KEYS" | "MAILROOM_PUBLIC_KEYS",
  form: RegExp,
  words: string,
): readonly string[] {
  const text = (env[variable] ?? "").trim();
  if (text === "") throw new Misconfigured(`${variable} holds no key`);
  const keys = text.split(/\s+/);
  const unfit = keys.findIndex((key) => !form.test(key));
  if (unfit >= 0) throw new Misconfigured(`key ${unfit + 1} of ${variable} is not ${words}`);
  return keys;
}
