import type { Bytes } from "../token/types.js";
import type { Engine, PreparedKey } from "../wasm/engine.js";

/** The part of `node:crypto` that is used here. */
interface Crypto {
  createPublicKey(key: { key: Bytes; format: "der"; type: "spki" }): object;
  verify(algorithm: null, message: Bytes, key: object, signature: Bytes): unknown;
}

/**
 * The Ed25519 of the platform: whether it accepts a signature of a message under a key, which the
 * module has judged before.
 */
export type Ed25519 = (key: PreparedKey, signature: Bytes, message: Bytes) => boolean;

/**
 * What precedes the 32 bytes of a public key in the encoding that every platform reads
 * (RFC 8410, section 4).
 */
const SPKI = "302a300506032b6570032100";

/** The public key of a seed of zeros, which is the message, too. */
const KEY = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29";
const R = "63145222a1f366ce657e65989b4f7074a4bc4093d2ba71ff1a3b72fcc40de4f4";
const S = "3707e1e40de32db295cb584f6a6f060f19c35dd69046686a560315b5d25e9106";
/**
 * An R with a part of small order, and the S with which the equation holds only once it is
 * multiplied by the cofactor.
 */
const R_MIXED = "0be2e9fa73e5ec36b7c631aa45b691cb464b97c2cdb30bf9d99bacef7c5fa99b";
const S_MIXED = "6444cfa7f3adf09f865a03bf40d175acca38cbf4ea4455c7701930b570ef7008";

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
  const keys = new WeakMap<PreparedKey, object>();
  const prefix = bytes(SPKI);
  return (key, signature, message) => {
    let prepared = keys.get(key);
    if (!prepared) {
      const encoded = new Uint8Array(prefix.length + key.state.length);
      encoded.set(prefix);
      encoded.set(key.state, prefix.length);
      prepared = createPublicKey({ key: encoded, format: "der", type: "spki" });
      keys.set(key, prepared);
    }
    return verify(null, message, prepared, signature) === true;
  };
}

/**
 * Whether it accepts the right signatures and no others. Platforms differ there, and a substitute
 * may have no signatures at all.
 */
function isStrict(accepts: Ed25519): boolean {
  const state = bytes(KEY);
  const key = { state, id: state };
  return (
    accepts(key, bytes(R + S), state) &&
    !accepts(key, bytes(R + S), bytes(R)) &&
    !accepts(key, bytes(R + S_MIXED), state) &&
    !accepts(key, bytes(R_MIXED + S_MIXED), state)
  );
}

function bytes(hexadecimal: string): Bytes {
  return Uint8Array.from(hexadecimal.match(/../g) as string[], (pair) => Number.parseInt(pair, 16));
}
