import type { PreparedKey } from "./engine.js";
import { versionOf } from "./version.js";

/** The characters of a token of v2 or v3 that spell its version, its action and the id of its key. */
const NAME_LENGTH = 8;

/** The keys that a verifier accepts, of which those that a token can mean are found without trying all. */
export class KeyRing {
  readonly #keys: readonly PreparedKey[];
  readonly #first: readonly PreparedKey[];
  readonly #named = new Map<string, PreparedKey[]>();

  constructor(keys: readonly PreparedKey[]) {
    this.#keys = keys;
    this.#first = keys.slice(0, 1);
    if (keys.length === 1) return;
    for (const key of keys) {
      for (const version of [2, 3]) {
        for (const action of [1, 2]) {
          const name = base64url([version, action, ...key.id]);
          this.#named.set(name, [...(this.#named.get(name) ?? []), key]);
        }
      }
    }
  }

  /**
   * The keys to try. A token of v1 names none, so all of them; one that names no key of the ring is refused by any, and
   * has to be, so that what else is wrong with it comes first.
   */
  candidates(token: string): readonly PreparedKey[] {
    if (this.#keys.length === 1 || versionOf(token) === 1) return this.#keys;
    return this.#named.get(token.slice(0, NAME_LENGTH)) ?? this.#first;
  }
}

/** Without padding, which whole groups of three bytes do not need. */
function base64url(bytes: readonly number[]): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_");
}
