import { hasHeader, versionOf } from "../token/version.js";
import type { PreparedKey } from "../wasm/engine.js";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** The keys that a verifier accepts, indexed by the id in a token. */
export class KeyRing {
  readonly #keys: readonly PreparedKey[];
  readonly #named = new Map<string, PreparedKey[]>();

  constructor(keys: readonly PreparedKey[]) {
    this.#keys = keys;
    for (const key of keys) {
      const name = nameOf(key);
      this.#named.set(name, [...(this.#named.get(name) ?? []), key]);
    }
  }

  /**
   * The keys to try. A token of v1 names none, so all of them. For an id that the ring does not
   * have, one key: it rejects the token, after the checks that come before the signature.
   */
  candidates(token: string): readonly PreparedKey[] {
    if (this.#keys.length === 1 || !hasHeader(versionOf(token))) return this.#keys;
    return this.#named.get(token.slice(4, 8)) ?? this.#keys.slice(0, 1);
  }

  /** Whether a token of v2 or v3 names a key of this ring, as far as its name tells. */
  knows(token: string): boolean {
    return this.#named.has(token.slice(4, 8));
  }
}

/**
 * The four characters that spell all but the first byte of the key's id in a token of v2 or v3. The
 * module compares the whole of it.
 */
function nameOf({ id }: PreparedKey): string {
  const bits = ((id[1] as number) << 16) | ((id[2] as number) << 8) | (id[3] as number);
  return [18, 12, 6, 0].map((shift) => ALPHABET[(bits >> shift) & 63]).join("");
}

/** The ring of the keys that `read` returns; the same keys make the same ring. */
export function ringOf(read: () => readonly PreparedKey[]): () => KeyRing {
  let keys: readonly PreparedKey[] | undefined;
  let ring: KeyRing;
  return () => {
    const found = read();
    if (found !== keys) {
      keys = found;
      ring = new KeyRing(found);
    }
    return ring;
  };
}
