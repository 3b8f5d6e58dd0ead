import type { Bytes } from "../token/types.js";
import type { Engine, PreparedKey } from "../wasm/engine.js";
import { strictCases } from "./strict_cases.js";

/** The part of `node:crypto` that is used here. */
interface Crypto {
  createPublicKey(key: { key: Bytes; format: "der"; type: "spki" }): object;
  verify(algorithm: null, message: Bytes, key: object, signature: Bytes): unknown;
}

/**
 * The Ed25519 of the platform: whether it accepts a signature of a message under a key, which the
 * module has judged before. Anything but `true` and `false` is no verdict.
 */
export type Ed25519 = (
  key: Pick<PreparedKey, "state">,
  signature: Bytes,
  message: Bytes,
) => unknown;

/**
 * What precedes the 32 bytes of a public key in the encoding that every platform reads
 * (RFC 8410, section 4).
 */
const SPKI = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/**
 * So many tokens are judged without it first, since a program that did not use `node:crypto` before
 * takes that long to load it.
 */
const WAIT = 256;

/** The platform, as the users of one engine find it. */
export class Platform {
  /** `null` where there is none. */
  #found: Ed25519 | null | undefined;
  #waited = 0;

  /**
   * Its Ed25519, if it has one that is synchronous and as strict as token-format.md.
   * It is looked for once.
   */
  get ed25519(): Ed25519 | null {
    if (this.#found === undefined) {
      // Whatever it runs into, it does not look again.
      this.#found = null;
      try {
        const ed25519 = find();
        if (isStrict(ed25519)) this.#found = ed25519;
      } catch {
        // Without such a process, or one of another kind.
      }
    }
    return this.#found;
  }

  /** The same for the next token, once it is worth the time to look for it. */
  get next(): Ed25519 | null {
    return this.#found === undefined && this.#waited++ < WAIT ? null : this.ed25519;
  }
}

const platforms = new WeakMap<Engine, Platform>();

/** All verifiers on one engine share one platform. */
export function platformOf(engine: Engine): Platform {
  const platform = platforms.get(engine) ?? new Platform();
  platforms.set(engine, platform);
  return platform;
}

/**
 * Finds `node:crypto` without an import: bundlers would have to find it,
 * and browsers do not have it.
 */
function find(): Ed25519 {
  const { process } = globalThis as unknown as {
    process: { getBuiltinModule(name: string): Crypto };
  };
  const { createPublicKey, verify } = process.getBuiltinModule("node:crypto");
  const keys = new WeakMap<object, object>();
  return (key, signature, message) => {
    let prepared = keys.get(key);
    if (!prepared) {
      const encoded = new Uint8Array(SPKI.length + key.state.length);
      encoded.set(SPKI);
      encoded.set(key.state, SPKI.length);
      prepared = createPublicKey({ key: encoded, format: "der", type: "spki" });
      keys.set(key, prepared);
    }
    return verify(null, message, prepared, signature);
  };
}

/**
 * Whether it accepts the right signatures and no others. A substitute may have no signatures at
 * all.
 */
function isStrict(judges: Ed25519): boolean {
  const [key, cases] = strictCases();
  return cases.every(
    ([signature, message, isRight]) => judges({ state: key }, signature, message) === isRight,
  );
}
