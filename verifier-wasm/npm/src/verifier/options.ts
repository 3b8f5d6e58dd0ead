import { readOptions, unreadable } from "../arguments/options.js";
import { MAX_CLOCK_TOLERANCE, readClock, readSpan } from "../arguments/seconds.js";
import { InvalidArgumentError, SecretInBrowserError } from "../errors/errors.js";
import { readActions } from "../token/actions.js";
import type { Version } from "../token/version.js";
import type { Engine } from "../wasm/engine.js";
import type { Parts, PublicParts } from "./factory.js";
import { type KeyKind, PUBLIC, SHARED } from "./key_faults.js";
import { readKeys } from "./keys.js";

const TOLERANCE = { name: "clockTolerance", least: 0, most: MAX_CLOCK_TOLERANCE };

/** The options of a verifier of shared keys. */
export function readSharedOptions(engine: Engine, options: unknown): Parts {
  const [keys, actions, accept, clock, clockTolerance, allowed] = readOptions(options, [
    "keys",
    "actions",
    "accept",
    "clock",
    "clockTolerance",
    "dangerouslyAllowSecretInBrowser",
  ]);
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
  return readParts(engine, [1, 2], SHARED, keys, actions, accept, clock, clockTolerance);
}

/** The options of a verifier of public keys. */
export function readPublicOptions(engine: Engine, options: unknown): PublicParts {
  const [keys, actions, accept, clock, clockTolerance, signatures] = readOptions(options, [
    "keys",
    "actions",
    "accept",
    "clock",
    "clockTolerance",
    "signatures",
  ]);
  if (signatures !== undefined && signatures !== "webassembly") {
    throw new InvalidArgumentError('the option signatures must be "webassembly", or left out');
  }
  const parts = readParts(engine, [3], PUBLIC, keys, actions, accept, clock, clockTolerance);
  return { ...parts, usesPlatform: signatures === undefined };
}

function readParts(
  engine: Engine,
  versions: readonly Version[],
  kind: KeyKind,
  keys: unknown,
  actions: unknown,
  accept: unknown,
  clock: unknown,
  clockTolerance: unknown,
): Parts {
  const tolerance = readSpan(clockTolerance === undefined ? 0 : clockTolerance, TOLERANCE);
  if (!Number.isInteger(tolerance))
    throw new InvalidArgumentError("the option clockTolerance must be in whole seconds");
  return {
    engine,
    ring: readKeys(engine, keys, kind),
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

/**
 * Whether this is a page, or a worker of one: of all runtimes only browsers have `importScripts`.
 */
function inBrowser(): boolean {
  const { window, importScripts, process } = globalThis as {
    window?: { document?: unknown };
    importScripts?: unknown;
    process?: unknown;
  };
  const isLikePage = typeof window?.document === "object" || typeof importScripts === "function";
  return isLikePage && !isOfNode(process);
}

/**
 * Whether a process is that of Node, where jsdom, happy-dom or domino may have made a window.
 * Bundlers give pages an object of that name, which is of no such class and has no version; the
 * pages of Electron and NW.js have one that says whose it is.
 */
function isOfNode(process: unknown): boolean {
  if (Object.prototype.toString.call(process) !== "[object process]") return false;
  const { node, electron, nw } = (process as { versions?: Record<string, unknown> }).versions ?? {};
  return typeof node === "string" && electron === undefined && nw === undefined;
}
