import { textOf } from "../arguments/options.js";
import type { Engine } from "../wasm/engine.js";
import { fieldsOf } from "./fields.js";
import type { KnownAction } from "./known_actions.js";
import type { Action, Browser, Bytes, Refused } from "./types.js";
import { coversCode, hasHeader, isBound, type Version, versionOf } from "./version.js";

/** @internal What a token's parts are read by; each of them is a fresh copy. */
export type TokenReader = Pick<Engine, "id" | "secret">;

/**
 * A token that a key of the ring signed for this action and,
 * of a recovery of v1 or v2, for this code.
 *
 * In v2 and v3 the link was also still valid; of v1 only the database knows. It may have been used
 * before: a guard checks that. Its values are getters, so that neither `console.log` nor
 * `JSON.stringify` shows them.
 */
export class VerifiedToken<Name extends string = Action> {
  readonly #engine: TokenReader;
  readonly #token: string;
  readonly #action: KnownAction;
  readonly #expiresAt: number;
  readonly #verifiedAt: number;
  readonly #elsewhere: boolean;

  /** @internal */
  constructor(
    engine: TokenReader,
    token: string,
    action: KnownAction,
    expiresAt: number,
    verifiedAt: number,
    elsewhere: boolean,
  ) {
    this.#engine = engine;
    this.#token = token;
    this.#action = action;
    this.#expiresAt = expiresAt;
    this.#verifiedAt = verifiedAt;
    this.#elsewhere = elsewhere;
  }

  /** The version of the signature format. */
  get version(): Version {
    return versionOf(this.#token);
  }

  /** What the token is good for. */
  get action(): Name {
    return this.#action.name as Name;
  }

  /**
   * When the token ends, in seconds since the Unix epoch;
   * `undefined` in v1, where only the database knows.
   */
  get expiresAt(): number | undefined {
    return hasHeader(this.version) ? this.#expiresAt : undefined;
  }

  /** When the token was judged, by the verifier's clock, in whole seconds since the Unix epoch. */
  get verifiedAt(): number {
    return this.#verifiedAt;
  }

  /**
   * In which browser the link was opened. Tell the database: a bound row needs its code unless this
   * is `"same"`. It is `"other"` only if the code was proven there.
   */
  get browser(): Browser {
    if (!isBound(this.#token)) return "unbound";
    return this.#elsewhere ? "other" : "same";
  }

  /**
   * Whether the code was verified. This is `false` for an action without a code, and for v3 unless
   * the `checkCode` of a guard accepted it.
   */
  get codeIsProven(): boolean {
    return this.#action.digits > 0 && coversCode(this.version);
  }

  /** The 32 bytes by which the database finds the token's row; a fresh copy each time. */
  get secret(): Bytes {
    return this.#engine.secret(this.#token);
  }

  /**
   * The 16 bytes under which the use of this token is remembered; a fresh copy each time. All
   * tokens of one row have the same id. It reveals nothing about the secret,
   * so it may be stored and logged.
   */
  get consumedId(): Bytes {
    return this.#engine.id(this.#token);
  }
}

/** What `tryVerify` found. */
export type Verification<Name extends string = Action> = Verified<Name> | Refused;

/** The token is genuine. */
export interface Verified<Name extends string = Action> {
  readonly ok: true;
  readonly token: VerifiedToken<Name>;
}

/**
 * The parts of a token. **Nothing about them is proven**:
 * anybody can make a token that says anything.
 */
export interface UnverifiedToken {
  readonly verified: false;
  /** The version of the signature format, which the length tells. */
  readonly version: Version;
  /**
   * The action that a token of v2 or v3 claims,
   * if it is one of the two that every installation has.
   */
  readonly unverifiedAction: Action | undefined;
  /** Its number, from 1 to 127; of a further action this alone. */
  readonly unverifiedActionNumber: number | undefined;
  /** The expiry that a token of v2 or v3 claims, in seconds since the Unix epoch. */
  readonly unverifiedExpiresAt: number | undefined;
  /** The four bytes by which a token of v2 or v3 names its key. */
  readonly unverifiedKeyId: Bytes | undefined;
  /**
   * The 16 bytes that claim to name the browser that a token is bound to; `undefined` for one that
   * is not bound.
   */
  readonly unverifiedBinding: Bytes | undefined;
  /** The 32 bytes that claim to be a row's secret. */
  readonly unverifiedSecret: Bytes;
  /** The 32 bytes, or 64 in v3, that claim to be its signature. */
  readonly unverifiedSignature: Bytes;
  /** The 16 bytes under which the use of such a token would be remembered. */
  readonly unverifiedConsumedId: Bytes;
}

/** @internal What every entry calls `decodeUnverified`. */
export function decodeToken(engine: Engine, token: unknown): UnverifiedToken {
  const text = textOf(token);
  const id = engine.id(text);
  const { version, action, actionNumber, keyId, expiresAt, binding, secret, tag } = fieldsOf(text);
  return {
    verified: false,
    version,
    unverifiedAction: action,
    unverifiedActionNumber: actionNumber,
    unverifiedExpiresAt: expiresAt,
    unverifiedKeyId: keyId,
    unverifiedBinding: binding,
    unverifiedSecret: secret,
    unverifiedSignature: tag,
    unverifiedConsumedId: id,
  };
}
