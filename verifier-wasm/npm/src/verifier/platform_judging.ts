import { PENDING_SIGNATURE, SIGNATURE } from "../errors/status.js";
import { isBound } from "../token/version.js";
import {
  ACCEPTED,
  BY_MODULE,
  type Engine,
  type Judgement,
  PENDING,
  type PreparedKey,
  PUBLIC_KEY,
} from "../wasm/engine.js";
import type { Platform } from "./platform.js";

type Judging = Pick<Engine, "verify" | "verifyLink">;

/**
 * The lengths of a signature and of its message, of a link that is not bound and of one that is.
 */
const SIGNATURE_LENGTH = 64;
const MESSAGE_LENGTH = 63;
const BOUND_MESSAGE_LENGTH = 79;

/**
 * Judges tokens of v3 as the engine does, with the Ed25519 of the platform where there is one.
 *
 * The platform has proven to be as strict as the module, so it is believed when it accepts and when
 * it refuses: a flood of forged links costs one verification each, as genuine ones do. Where it
 * fails, the module judges alone. Once the platform was asked, the module gets all arguments again,
 * so it does not matter what was called in between.
 */
export function withPlatform(engine: Engine, platform: Platform): Judging {
  function judge(
    token: string,
    keys: readonly PreparedKey[],
    ask: (keys: readonly PreparedKey[], signature: Judgement) => number,
  ): number {
    const judges = platform.next;
    if (!judges) return ask(keys, BY_MODULE);
    let status = SIGNATURE;
    for (let index = 0; status === SIGNATURE && index < keys.length; index++) {
      const key = keys[index] as PreparedKey;
      status = ask([key], PENDING);
      if (status === PENDING_SIGNATURE) {
        const { buffer, byteOffset } = engine.key;
        const start = byteOffset + PUBLIC_KEY;
        const end = start + SIGNATURE_LENGTH;
        const signature = new Uint8Array(buffer.slice(start, end));
        const length = isBound(token) ? BOUND_MESSAGE_LENGTH : MESSAGE_LENGTH;
        const message = new Uint8Array(buffer.slice(end, end + length));
        let verdict: unknown;
        try {
          verdict = judges(key, signature, message);
        } catch {
          // The module does without.
        }
        status =
          verdict === false ? SIGNATURE : ask([key], verdict === true ? ACCEPTED : BY_MODULE);
      }
    }
    return status;
  }

  return {
    verify: (token, action, code, nonce, keys, now, tolerance) =>
      judge(token, keys, (keys, signature) =>
        engine.verify(token, action, code, nonce, keys, now, tolerance, signature),
      ),
    verifyLink: (token, action, nonce, keys, now, tolerance) =>
      judge(token, keys, (keys, signature) =>
        engine.verifyLink(token, action, nonce, keys, now, tolerance, signature),
      ),
  };
}
