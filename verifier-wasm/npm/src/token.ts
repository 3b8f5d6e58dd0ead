import type { Engine } from "./engine.js";
import { InvalidArgumentError } from "./errors.js";
import type { Action, Bytes } from "./types.js";

/**
 * A token that a key of the ring signed for this action and, of a recovery, for this code.
 *
 * Of version 1 it proves neither that the link is still valid nor that it was not used before: only the database knows.
 * What it holds is read by getters and shown by no console, serialised by no `JSON.stringify`.
 */
export class VerifiedToken {
  readonly #engine: Engine;
  readonly #token: string;
  readonly #action: Action;

  /** @internal */
  constructor(engine: Engine, token: string, action: Action) {
    this.#engine = engine;
    this.#token = token;
    this.#action = action;
  }

  /** The version of the signature format. */
  get version(): 1 {
    return 1;
  }

  /** What the token is good for. */
  get action(): Action {
    return this.#action;
  }

  /** The 32 bytes by which the database finds the token's row; a fresh copy each time. */
  get secret(): Bytes {
    return this.#engine.secret(this.#token);
  }

  /**
   * The 16 bytes under which the use of this token is remembered; a fresh copy each time. All tokens of one row have the
   * same id. It reveals nothing about the secret, so it may be stored and logged.
   */
  get id(): Bytes {
    return this.#engine.id(this.#token);
  }
}

/** The parts of a token of which **nothing is proven**: anybody can make one that says anything. */
export interface UnverifiedToken {
  readonly verified: false;
  /** The version of the signature format, which the length tells. */
  readonly version: 1;
  /** The 32 bytes that claim to be a row's secret. */
  readonly unverifiedSecret: Bytes;
  /** The 32 bytes that claim to be its signature. */
  readonly unverifiedSignature: Bytes;
  /** The 16 bytes under which the use of such a token would be remembered. */
  readonly unverifiedId: Bytes;
}

/** @internal What every entry calls `inspect`. */
export function inspectToken(engine: Engine, token: unknown): UnverifiedToken {
  if (typeof token !== "string") throw new InvalidArgumentError("a token is a string");
  return {
    verified: false,
    version: 1,
    unverifiedSecret: engine.secret(token),
    unverifiedSignature: engine.tag(token),
    unverifiedId: engine.id(token),
  };
}
