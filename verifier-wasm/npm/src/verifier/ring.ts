import { bits } from "../token/fields.js";
import { hasHeader, versionOf } from "../token/version.js";
import type { PreparedKey } from "../wasm/engine.js";

/** The keys that a verifier accepts, indexed by the id in a token. */
export class KeyRing {
  readonly #keys: readonly PreparedKey[];
  readonly #named = new Map<number, PreparedKey[]>();

  constructor(keys: readonly PreparedKey[]) {
    this.#keys = keys;
    for (const key of keys) {
      const [, one, two, three] = key.id as unknown as [number, number, number, number];
      const name = (one << 16) | (two << 8) | three;
      this.#named.set(name, [...(this.#named.get(name) ?? []), key]);
    }
  }

  /**
   * The keys to try. A token of v1 names none, so all of them. For an id that the ring does not
   * have, one key: it rejects the token, after the checks that come before the signature.
   */
  candidates(token: string): readonly PreparedKey[] {
    if (this.#keys.length === 1 || !hasHeader(versionOf(token))) return this.#keys;
    return this.#named.get(nameIn(token)) ?? this.#keys.slice(0, 1);
  }

  /** Whether a token of v2 or v3 names a key of this ring, as far as its name tells. */
  knows(token: string): boolean {
    return this.#named.has(nameIn(token));
  }
}

/**
 * The number that all but the first byte of the key's id make, which four characters of a token of
 * v2 or v3 spell. The module compares the whole id.
 */
function nameIn(token: string): number {
  let name = 0;
  for (let at = 4; at < 8; at++) name = (name << 6) | bits(token.charCodeAt(at));
  return name;
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
