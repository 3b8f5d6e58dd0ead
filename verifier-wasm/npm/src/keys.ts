import type { Engine, PreparedKey } from "./engine.js";
import { KeyInvalidError } from "./errors.js";
import { unreadable } from "./options.js";

const LENGTH = 32;

/** A proxy may claim to be a list without an end. */
const MOST_KEYS = 1024;

/**
 * Prepares the option `keys`: one key, or a list of them, of which each element is read once. `form` says what a key is.
 */
export function prepareRing(engine: Engine, keys: unknown, form: string): readonly PreparedKey[] {
  if (!read(() => Array.isArray(keys))) return [prepare(engine, keys, form)];
  const ring: PreparedKey[] = [];
  // Whatever a proxy gives for it becomes a number, or an error of this package.
  const length = read(() => Number((keys as unknown[]).length));
  if (length > MOST_KEYS) throw new KeyInvalidError(`a verifier takes at most ${MOST_KEYS} keys`);
  for (let index = 0; index < length; index++) {
    const key = read(() => (keys as unknown[])[index]);
    ring.push(prepare(engine, key, `keys[${index}]: ${form}`));
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

function prepare(engine: Engine, key: unknown, form: string): PreparedKey {
  const prepared = typeof key === "string" || isKey(key) ? engine.prepare(key) : undefined;
  if (!prepared) throw new KeyInvalidError(form);
  return prepared;
}

const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as object;

/** Whether these are 32 bytes, from whichever realm; what the object says of itself does not count. */
function isKey(key: unknown): key is Uint8Array {
  const is = (name: string | symbol, value: unknown): boolean => Reflect.get(typedArray, name, key) === value;
  return ArrayBuffer.isView(key) && is(Symbol.toStringTag, "Uint8Array") && is("length", LENGTH);
}
