import { readOptions, unreadable } from "../arguments/options.js";
import { type Clock, MAX_CLOCK_TOLERANCE, readClock, readSpan } from "../arguments/seconds.js";
import { InvalidArgumentError, SecretInBrowserError } from "../errors/errors.js";
import { readActions } from "../token/actions.js";
import type { Actions } from "../token/known_actions.js";
import type { Version } from "../token/version.js";
import type { Engine, PreparedKey } from "../wasm/engine.js";
import type { Parts, PublicParts } from "./factory.js";
import { inBrowser } from "./in_browser.js";
import { type KeyKind, PUBLIC, SHARED } from "./key_faults.js";
import { type Prepare, readKeys } from "./keys.js";
import { ringOf } from "./ring.js";

const TOLERANCE = { name: "clockTolerance", least: 0, most: MAX_CLOCK_TOLERANCE };

/** What every verifier has been told, once it is read. */
export interface ReadOptions<Key> {
  /** Throws where the keys are read at the first use and are not good. */
  readonly keys: () => readonly Key[];
  /** The actions that are known. */
  readonly actions: Actions;
  /** The versions that are accepted. */
  readonly accepted: readonly Version[];
  readonly clock: Clock;
  readonly clockTolerance: number;
}

/** The names of the options that verifiers of all kinds of keys have. */
const COMMON = ["keys", "actions", "accept", "clock", "clockTolerance"] as const;

/** The options of a verifier of shared keys. */
export function readShared<Key>(prepare: Prepare<Key>, options: unknown): ReadOptions<Key> {
  const [allowed, ...common] = readOptions(options, [
    "dangerouslyAllowSecretInBrowser",
    ...COMMON,
  ] as const);
  if (allowed !== undefined && typeof allowed !== "boolean") {
    throw new InvalidArgumentError(
      "the option dangerouslyAllowSecretInBrowser must be true or false",
    );
  }
  if (allowed !== true && inBrowser()) {
    throw new SecretInBrowserError(
      "whoever opens a page could forge links with its shared key: use mailroom-verifier/public " +
        "there, or give the option dangerouslyAllowSecretInBrowser where nobody else can open it",
    );
  }
  return readCommon(prepare, [1, 2], SHARED, common);
}

/** The options of a verifier of public keys, of which `name` is one beside those of all. */
export function readPublic<Key>(
  prepare: Prepare<Key>,
  options: unknown,
  name: string,
): readonly [unknown, ReadOptions<Key>] {
  const [own, ...common] = readOptions(options, [name, ...COMMON] as const);
  return [own, readCommon(prepare, [3], PUBLIC, common)];
}

/** The options of a verifier of shared keys on a module. */
export function readSharedOptions(engine: Engine, options: unknown): Parts {
  return partsOf(
    engine,
    readShared((key) => engine.prepare(key), options),
  );
}

/** The options of a verifier of public keys on a module. */
export function readPublicOptions(engine: Engine, options: unknown): PublicParts {
  const [signatures, read] = readPublic((key) => engine.prepare(key), options, "signatures");
  if (signatures !== undefined && signatures !== "webassembly") {
    throw new InvalidArgumentError('the option signatures must be "webassembly", or left out');
  }
  return { ...partsOf(engine, read), usesPlatform: signatures === undefined };
}

function partsOf(engine: Engine, { keys, ...read }: ReadOptions<PreparedKey>): Parts {
  return { engine, ring: ringOf(keys), ...read };
}

function readCommon<Key>(
  prepare: Prepare<Key>,
  versions: readonly Version[],
  kind: KeyKind,
  [keys, actions, accept, clock, clockTolerance]: readonly unknown[],
): ReadOptions<Key> {
  const tolerance = readSpan(clockTolerance === undefined ? 0 : clockTolerance, TOLERANCE);
  if (!Number.isInteger(tolerance))
    throw new InvalidArgumentError("the option clockTolerance must be in whole seconds");
  return {
    keys: readKeys(prepare, keys, kind),
    actions: readActions(actions),
    accepted: readAccepted(accept, versions),
    clock: readClock(clock),
    clockTolerance: tolerance,
  };
}

function readAccepted(accept: unknown, versions: readonly Version[]): readonly Version[] {
  if (accept === undefined) return versions;
  const names: unknown[] = versions.map((version) => `v${version}`);
  let given: unknown[] = [];
  try {
    // One more than there can be, so that a longer list is seen to be one.
    if (Array.isArray(accept)) given = [...names, 0].map((_, place) => accept[place]);
  } catch (cause) {
    throw unreadable(cause);
  }
  const accepted = versions.filter((_, place) => given.includes(names[place]));
  const strays = given.filter((name) => name !== undefined && !names.includes(name));
  if (accepted.length === 0 || strays.length > 0 || given[names.length] !== undefined) {
    throw new InvalidArgumentError(
      `the option accept must list one or more of ${names.join(" and ")}`,
    );
  }
  return accepted;
}
