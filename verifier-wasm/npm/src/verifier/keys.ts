import { isBytes } from "../arguments/bytes.js";
import { atOnce } from "../arguments/callbacks.js";
import { unreadable } from "../arguments/options.js";
import { KeyInvalidError } from "../errors/errors.js";
import { type KeyKind, keyFault } from "./key_faults.js";

const LENGTH = 32;

/** The bound of a list, since a proxy may have any length. */
const MOST_KEYS = 1024;

/** Prepares a key given as text or as 32 bytes; `undefined` if it is no key of the kind. */
export type Prepare<Key> = (key: string | Uint8Array) => Key | undefined;

/**
 * The option `keys`. A function is called at the first use, so that a verifier can be made where
 * its keys are not available, and again at the next use if the keys were not valid. The same keys
 * are the same list.
 */
export function readKeys<Key>(
  prepare: Prepare<Key>,
  keys: unknown,
  kind: KeyKind,
): () => readonly Key[] {
  let ring: readonly Key[] | undefined;
  if (typeof keys !== "function") {
    const given = prepareRing(prepare, keys, kind);
    return () => given;
  }
  return () => {
    if (ring) return ring;
    let given: unknown;
    try {
      given = atOnce(keys);
    } catch (cause) {
      throw new KeyInvalidError(`the function keys threw ${nameOf(cause)}`, { cause });
    }
    ring = prepareRing(prepare, given, kind);
    return ring;
  };
}

/** The name of what was thrown. If a variable is missing, the runtime's message follows. */
function nameOf(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error) || !/^\w{1,64}$/.test(thrown.name))
      return `something of the type ${typeof thrown}`;
    // A name and no value, such as "process is not defined".
    const [missing] = /^[\w.$]{1,64} is not defined$/.exec(thrown.message) ?? [];
    return missing === undefined ? thrown.name : `${thrown.name}: ${missing}`;
  } catch {
    return "what cannot be read";
  }
}

/** Prepares one key, or a list of them. Each element of the list is read once. */
function prepareRing<Key>(prepare: Prepare<Key>, keys: unknown, kind: KeyKind): readonly Key[] {
  if (!read(() => Array.isArray(keys))) return [prepareOne(prepare, keys, kind)];
  const ring: Key[] = [];
  // Whatever a proxy gives for it becomes a number, or an error of this package.
  const length = read(() => Number((keys as unknown[]).length));
  if (length > MOST_KEYS) throw new KeyInvalidError(`a verifier takes at most ${MOST_KEYS} keys`);
  for (let index = 0; index < length; index++) {
    const key = read(() => (keys as unknown[])[index]);
    ring.push(prepareOne(prepare, key, kind, `keys[${index}]: `));
  }
  if (ring.length === 0) throw new KeyInvalidError("a verifier needs at least one key");
  return ring;
}

/** Getters and proxies may throw whatever they like. */
function read<Value>(attempt: () => Value): Value {
  try {
    return attempt();
  } catch (cause) {
    throw unreadable(cause);
  }
}

function prepareOne<Key>(prepare: Prepare<Key>, key: unknown, kind: KeyKind, which = ""): Key {
  const prepared = typeof key === "string" || isBytes(key, LENGTH) ? prepare(key) : undefined;
  if (prepared === undefined) throw new KeyInvalidError(which + keyFault(key, kind));
  return prepared;
}
