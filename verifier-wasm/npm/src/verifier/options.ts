// The options of all verifiers. Messages name what is wrong and no more, since every page loads
// their bytes; `explain` of the entry `errors` says what each is.

import { isBytes } from "../arguments/bytes.js";
import { atOnce } from "../arguments/callbacks.js";
import { InvalidArgumentError, KeyInvalidError } from "../errors/errors.js";
import { definedIn } from "../token/defined.js";
import { Actions, BUILT_IN } from "../token/known_actions.js";
import type { Version } from "../token/version.js";

/** What a verifier has been told, once it is read. */
export interface Told<Key> {
  /** Throws where the keys are read at the first use and are not good. The same are one list. */
  readonly keys: () => readonly Key[];
  readonly actions: Actions;
  readonly accepted: readonly Version[];
  /** The time in whole seconds. */
  readonly clock: () => number;
  readonly clockTolerance: number;
  /** The option that the kind of verifier has alone. */
  readonly own: unknown;
}

type Named = Readonly<Record<string, unknown>>;

const LAST_SECOND = 253_402_300_799;
const MOST_KEYS = 1024;

export function invalid(what: string, cause?: ErrorOptions): InvalidArgumentError {
  return new InvalidArgumentError(`wrong: ${what}`, cause);
}

/** Calls what reads from a caller's object, whose getters may throw whatever they like. */
export function reading<Value>(what: string, read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw cause instanceof InvalidArgumentError ? cause : invalid(what, { cause });
  }
}

/** The own properties of a caller's object, which may have these and no others, each read once. */
export function readOwn(given: unknown, known: readonly string[]): Named {
  return reading("options", () => {
    const names = typeof given === "object" && given !== null ? Object.keys(given) : [""];
    if (!names.every((name) => known.includes(name))) {
      throw invalid(`the options are ${known.join(", ")}`);
    }
    // No prototype, from which others might be inherited.
    const values: Record<string, unknown> = { __proto__: null };
    for (const name of names) values[name] = (given as Named)[name];
    return values;
  });
}

/**
 * The options of `createVerifier`.
 *
 * @param own the name of the option that this kind of verifier has alone
 * @param versions those that its keys can verify
 * @param prepare a key given as text or as 32 bytes; answers nothing for one of another kind
 * @param shapeOf what a message says of a key that is none
 */
export function readOptions<Key>(
  options: unknown,
  own: string,
  versions: readonly Version[],
  prepare: (key: string | Uint8Array) => Key | undefined,
  shapeOf?: (key: unknown) => string,
): Told<Key> {
  const known = ["keys", "actions", "accept", "clock", "clockTolerance", own];
  const {
    keys,
    actions,
    accept,
    clock,
    clockTolerance = 0,
    [own]: value,
  } = readOwn(options, known);
  const isWhole = Number.isInteger(clockTolerance);
  if (!isWhole || !((clockTolerance as number) >= 0 && (clockTolerance as number) < 1000)) {
    throw invalid("clockTolerance");
  }
  if (clock !== undefined && typeof clock !== "function") throw invalid("clock");
  const ring = (given: unknown): readonly Key[] => {
    const list = reading("keys", () =>
      Array.isArray(given)
        ? Array.from(
            { length: Math.min(Number(given.length), MOST_KEYS + 1) },
            (_, at) => given[at],
          )
        : [given],
    );
    if (list.length === 0 || list.length > MOST_KEYS) throw new KeyInvalidError("wrong: keys");
    return list.map((key, at) => {
      const prepared = typeof key === "string" || isBytes(key, 32) ? prepare(key) : undefined;
      if (prepared !== undefined) return prepared;
      throw new KeyInvalidError(`wrong: keys[${at}]${shapeOf?.(key) ?? ""}`);
    });
  };
  let read = typeof keys === "function" ? undefined : ring(keys);
  return {
    keys() {
      if (read) return read;
      let given: unknown;
      try {
        given = atOnce(keys as () => unknown);
      } catch (cause) {
        throw new KeyInvalidError("wrong: keys", { cause });
      }
      read = ring(given);
      return read;
    },
    actions: actions === undefined ? BUILT_IN : readActions(actions),
    accepted: accept === undefined ? versions : readAccepted(accept, versions),
    clock: clock ? () => secondOf(clock) : () => Math.floor(Date.now() / 1000),
    clockTolerance: clockTolerance as number,
    own: value,
  };
}

/** The second that a caller's clock tells. */
function secondOf(clock: object): number {
  const now = reading("clock", () => atOnce(clock));
  if (typeof now !== "number" || !(now >= 0 && now <= LAST_SECOND)) throw invalid("clock");
  return Math.floor(now);
}

function readAccepted(accept: unknown, versions: readonly Version[]): readonly Version[] {
  return reading("accept", () => {
    const accepted = versions.filter((version) => (accept as unknown[]).includes(`v${version}`));
    const { length } = accept as unknown[];
    if (!Array.isArray(accept) || accepted.length === 0 || length !== accepted.length)
      throw invalid("accept");
    return accepted;
  });
}

/** Further actions, which `defineActions` has checked. */
function readActions(given: unknown): Actions {
  return reading("actions", () => {
    const actions = new Actions();
    for (const [name, number, digits] of definedIn(given)) actions.add(name, number, digits);
    return actions;
  });
}
