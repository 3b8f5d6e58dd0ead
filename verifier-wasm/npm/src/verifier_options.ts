import type { Engine } from "./engine.js";
import { InvalidArgumentError, SecretInBrowserError } from "./errors.js";
import { prepareRing } from "./keys.js";
import { readOptions, unreadable } from "./options.js";
import { KeyRing } from "./ring.js";
import { readClock, readSpan } from "./seconds.js";
import type { Parts } from "./verifier.js";
import type { Version } from "./version.js";

const TOLERANCE = { name: "clockTolerance", least: 0, most: 999 };

/** The options of a verifier of shared keys. */
export function readSharedOptions(engine: Engine, options: unknown): Parts {
  const [keys, accept, clock, clockTolerance, allowed] = readOptions(options, [
    "keys",
    "accept",
    "clock",
    "clockTolerance",
    "dangerouslyAllowSecretInBrowser",
  ]);
  if (allowed !== undefined && typeof allowed !== "boolean") {
    throw new InvalidArgumentError("the option dangerouslyAllowSecretInBrowser is true or false");
  }
  if (allowed !== true && inBrowserWindow()) {
    throw new SecretInBrowserError(
      "a shared key does not belong into a browser: whoever can read the page could forge links with it",
    );
  }
  return readParts(engine, [1, 2], keys, accept, clock, clockTolerance);
}

/** The options of a verifier of public keys. */
export function readPublicOptions(engine: Engine, options: unknown): Parts {
  const [keys, accept, clock, clockTolerance] = readOptions(options, [
    "keys",
    "accept",
    "clock",
    "clockTolerance",
  ]);
  return readParts(engine, [3], keys, accept, clock, clockTolerance);
}

function readParts(
  engine: Engine,
  versions: readonly Version[],
  keys: unknown,
  accept: unknown,
  clock: unknown,
  clockTolerance: unknown,
): Parts {
  const tolerance = readSpan(clockTolerance ?? 0, TOLERANCE);
  if (!Number.isInteger(tolerance))
    throw new InvalidArgumentError("the option clockTolerance is in whole seconds");
  return {
    engine,
    ring: new KeyRing(prepareRing(engine, keys)),
    accepted: readAccepted(accept, versions),
    clock: readClock(clock),
    clockTolerance: tolerance,
  };
}

function readAccepted(accept: unknown, versions: readonly Version[]): readonly Version[] {
  if (accept === undefined) return versions;
  const names = versions.map((version) => `v${version}`);
  const given: unknown[] = [];
  try {
    // One more than there can be, so that a longer list is seen to be one.
    if (Array.isArray(accept)) given.push(...names.map((_, place) => accept[place]), accept[names.length]);
  } catch (cause) {
    throw unreadable(cause);
  }
  const listed = given.filter((name) => name !== undefined);
  if (
    listed.length === 0 ||
    listed.length > names.length ||
    !listed.every((name) => names.includes(name as string))
  ) {
    throw new InvalidArgumentError(`the option accept is a list of one or more of ${names.join(" and ")}`);
  }
  return versions.filter((version) => listed.includes(`v${version}`));
}

function inBrowserWindow(): boolean {
  const { window } = globalThis as { window?: { document?: unknown } };
  return typeof window?.document === "object";
}
