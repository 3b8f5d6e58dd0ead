import type { Engine, PreparedKey } from "./engine.js";
import { KeyInvalidError } from "./errors.js";
import { unreadable } from "./options.js";

const LENGTH = 32;

const FORMS = {
  shared:
    "a shared key is 64 hexadecimal characters or 32 bytes in a Uint8Array; " +
    "mailroom-verifier/public takes public keys",
  public:
    'a public key is "mrpk_" and 43 characters of base64url, or 32 bytes in a Uint8Array, ' +
    "and a point of the curve in its only encoding; mailroom-verifier takes shared keys",
} as const;

/** A proxy may claim to be a list without an end. */
const MOST_KEYS = 1024;

/** Prepares the option `keys`: one key, or a list of them, of which each element is read once. */
export function prepareRing(engine: Engine, keys: unknown): readonly PreparedKey[] {
  if (!read(() => Array.isArray(keys))) return [prepare(engine, keys)];
  const ring: PreparedKey[] = [];
  // Whatever a proxy gives for it becomes a number, or an error of this package.
  const length = read(() => Number((keys as unknown[]).length));
  if (length > MOST_KEYS) throw new KeyInvalidError(`a verifier takes at most ${MOST_KEYS} keys`);
  for (let index = 0; index < length; index++) {
    ring.push(
      prepare(
        engine,
        read(() => (keys as unknown[])[index]),
      ),
    );
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

function prepare(engine: Engine, key: unknown): PreparedKey {
  const prepared = typeof key === "string" || isKey(key) ? engine.prepare(key) : undefined;
  if (!prepared) throw new KeyInvalidError(FORMS[engine.kind]);
  return prepared;
}

const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as object;

/** Whether these are 32 bytes, from whichever realm; what the object says of itself does not count. */
function isKey(key: unknown): key is Uint8Array {
  const is = (name: string | symbol, value: unknown): boolean => Reflect.get(typedArray, name, key) === value;
  return ArrayBuffer.isView(key) && is(Symbol.toStringTag, "Uint8Array") && is("length", LENGTH);
}
