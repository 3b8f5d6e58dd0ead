import { OK, refusal, SIGNATURE } from "../errors/status.js";
import { secretOf } from "../token/fields.js";
import { BUILT_IN, type KnownAction } from "../token/known_actions.js";
import type { Bytes } from "../token/types.js";
import { isBound } from "../token/version.js";
import type * as Exports from "./generated/verifier_bg.wasm.js";
import { Stack } from "./stack.js";

/** A key as the module prepares it. A shared one is as secret as the key itself. */
export interface PreparedKey {
  readonly state: Bytes;
  /** The four bytes by which tokens of v2 and v3 name the key. */
  readonly id: Bytes;
}

/** The length of the prepared keys of a module, in bytes. */
export type KeyLength = typeof SHARED_KEY | typeof PUBLIC_KEY;
export const SHARED_KEY = 196;
export const PUBLIC_KEY = 32;

const TEXT_LENGTH = 176;
const CODE_LENGTH = 16;
const NONCE_LENGTH = 48;
const OUTPUT_LENGTH = 16;
const ACTIONS_LENGTH = 128;

/** The length that stands for a missing code. No text has it. */
const NO_CODE = -1;

/** Instead of a nonce, for a browser that is not judged, or was before; no text is it. */
export const NOT_JUDGED = -1;
type Nonce = string | typeof NOT_JUDGED;

/**
 * Who checks the signature of a v3 token: the module; the platform, which did not yet; the
 * platform, which accepted it.
 */
export const BY_MODULE = 0;
export const PENDING = 1;
export const ACCEPTED = 2;
export type Judgement = typeof BY_MODULE | typeof PENDING | typeof ACCEPTED;

/**
 * An export that judges a token. The module of shared keys ignores the judgement, which comes last.
 */
type Judging = (...numbers: (number | undefined)[]) => number;

/**
 * One instance of a WebAssembly module, and the buffers in its memory
 * that it shares with JavaScript.
 *
 * Every method reads its arguments, which are primitive or copied before, then fills the buffers
 * and calls: no code of the caller runs in between, so calls cannot interfere.
 */
export class Engine {
  readonly #exports: typeof Exports;
  readonly #stack: Stack;
  readonly #text: Bytes;
  readonly #code: Bytes;
  readonly #nonce: Bytes;
  readonly #key: Bytes;
  readonly #actions: Bytes;
  readonly #output: Bytes;
  readonly #numbers: DataView;
  #loaded: PreparedKey | undefined;
  /** The list of actions that was loaded with it. */
  #known: Bytes | undefined;
  /** The text that was written last, unless something else was written since. */
  #written: string | undefined;

  constructor(instance: WebAssembly.Instance, keyLength: KeyLength) {
    const exports = instance.exports as unknown as typeof Exports;
    const { buffer } = exports.memory;
    this.#exports = exports;
    this.#stack = new Stack(instance);
    // In the order of `verifier-wasm/src/buffers.rs`.
    let next = exports.buffers();
    const place = (length: number): Bytes => {
      next += length;
      return new Uint8Array(buffer, next - length, length);
    };
    this.#text = place(TEXT_LENGTH);
    this.#code = place(CODE_LENGTH);
    this.#nonce = place(NONCE_LENGTH);
    this.#output = place(OUTPUT_LENGTH);
    this.#actions = place(ACTIONS_LENGTH);
    this.#key = place(keyLength);
    this.#numbers = new DataView(buffer, this.#output.byteOffset);
  }

  /**
   * Prepares a key given as text or as 32 bytes.
   * Returns `undefined` if this is not a key of this module's kind.
   */
  prepare(key: string | Uint8Array): PreparedKey | undefined {
    let length = -1;
    if (typeof key === "string") length = this.#write(key);
    else this.#text.set(key);
    this.#written = undefined;
    this.#stack.enter();
    const status = this.#exports.prepare_key(length);
    this.#stack.leave();
    return status === OK ? { state: this.#key.slice(), id: this.#output.slice(0, 4) } : undefined;
  }

  /**
   * Judges a token together with its code, with the keys, one after the other, until one of them
   * made its signature; the number is one of `status.ts`.
   * `now` and `tolerance` are in whole seconds.
   *
   * Only `undefined` means no code. Any other value that is not a string is a malformed code.
   */
  verify(
    token: string,
    action: KnownAction,
    code: string | undefined,
    nonce: Nonce,
    keys: readonly PreparedKey[],
    now: number,
    tolerance: number,
    signature?: Judgement,
  ): number {
    const codeLength =
      code === undefined ? NO_CODE : typeof code === "string" ? write(code, this.#code) : 0;
    const nonceLength = this.#writeNonce(token, nonce);
    const verify = this.#exports.verify as Judging;
    const { number } = action;
    return this.#judge(token, action, keys, (length) =>
      verify(length, number, codeLength, nonceLength, now, tolerance, signature),
    );
  }

  /**
   * Judges the link of a token without its code. The other arguments and the result are those of
   * `verify`, but that `OTHER_BROWSER` says that the link is genuine and valid.
   */
  verifyLink(
    token: string,
    action: KnownAction,
    nonce: string,
    keys: readonly PreparedKey[],
    now: number,
    tolerance: number,
    signature?: Judgement,
  ): number {
    const nonceLength = this.#writeNonce(token, nonce);
    const verify_link = this.#exports.verify_link as Judging;
    const { number } = action;
    return this.#judge(token, action, keys, (length) =>
      verify_link(length, number, nonceLength, now, tolerance, signature),
    );
  }

  #judge(
    token: string,
    { list }: KnownAction,
    keys: readonly PreparedKey[],
    ask: (length: number) => number,
  ): number {
    const length = this.#write(token);
    let status = SIGNATURE;
    for (let index = 0; status === SIGNATURE && index < keys.length; index++) {
      this.#stack.enter();
      this.#load(keys[index] as PreparedKey, list);
      status = ask(length);
      this.#stack.leave();
    }
    return status;
  }

  /**
   * The last buffer that both modules have. What the module of public keys leaves
   * for the platform follows it.
   */
  get key(): Bytes {
    return this.#key;
  }

  /** The 16 bytes that name the browser that has this nonce, if it is one. */
  bind(nonce: string): Bytes | undefined {
    const length = write(nonce, this.#nonce);
    this.#stack.enter();
    const bound = this.#exports.bind(length);
    this.#stack.leave();
    return bound ? this.#output.slice() : undefined;
  }

  /**
   * When the token ends that the last call of `verify` or `verifyLink` accepted;
   * 0 if it does not say.
   */
  get expiresAt(): number {
    return this.#numbers.getFloat64(0, true);
  }

  /** The id under which the use of a token is remembered, if it is well-formed. */
  id(token: string): Bytes {
    const length = this.#written === token ? token.length : this.#write(token);
    this.#stack.enter();
    const status = this.#exports.identify(length);
    this.#stack.leave();
    if (status !== OK) throw refusal(status);
    return this.#output.slice();
  }

  /** The secret of a well-formed token. */
  secret(token: string): Bytes {
    return secretOf(token);
  }

  /** Loads a key, with the actions that its tokens may have. */
  #load(key: PreparedKey, list: Bytes): void {
    if (this.#loaded === key && this.#known === list) return;
    // Nothing is loaded if the call is cut off.
    this.#loaded = undefined;
    this.#key.set(key.state);
    this.#exports.load_key();
    if (list !== BUILT_IN.list) {
      this.#actions.set(list);
      this.#exports.load_actions();
    }
    this.#loaded = key;
    this.#known = list;
  }

  /**
   * Writes what the browser of a token is compared with; of a token that is not bound nothing is,
   * and hashing takes time.
   */
  #writeNonce(token: string, nonce: Nonce): number {
    if (nonce === NOT_JUDGED) return nonce;
    return isBound(token) ? write(nonce, this.#nonce) : 0;
  }

  /** Writes a token or a key and returns its length. */
  #write(text: string): number {
    this.#written = undefined;
    const length = write(text, this.#text);
    // Text that is not ASCII has another length, so it is no token.
    if (length === text.length) this.#written = text;
    return length;
  }
}

/** Twice as fast as a loop. Test environments that imitate a browser lack it. */
const encoder = typeof TextEncoder === "function" ? new TextEncoder() : undefined;

/** Writes a text and returns its length in UTF-8; one that is too long is not written. */
function write(text: string, place: Bytes): number {
  const { length } = text;
  if (length > place.length) return place.length;
  if (encoder) return encoder.encodeInto(text, place).written;
  for (let at = 0; at < length; at++) {
    const unit = text.charCodeAt(at);
    // No token or key fills the buffer, and none has characters outside ASCII.
    if (unit > 127) return place.length;
    place[at] = unit;
  }
  return length;
}
