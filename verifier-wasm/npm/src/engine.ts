import type * as Exports from "./generated/verifier_bg.wasm.js";
import { OK } from "./status.js";
import type { Action } from "./types.js";

/** A key as the module prepares it: two states of SHA-256. As secret as the key itself. */
export type PreparedKey = Uint8Array & { readonly prepared: unique symbol };

/** What an unproven token consists of. */
export interface Fields {
  readonly secret: Uint8Array<ArrayBuffer>;
  readonly tag: Uint8Array<ArrayBuffer>;
  readonly id: Uint8Array<ArrayBuffer>;
}

const TEXT_LENGTH = 160;
const CODE_LENGTH = 8;
const KEY_LENGTH = 64;

const encoder = new TextEncoder();

/**
 * One instance of the WebAssembly module, and the places in its memory through which bytes cross.
 *
 * Every method reads all it needs from its arguments, which are primitive or copied before, then fills the places and
 * calls: no code of the caller runs in between, so calls cannot disturb each other.
 */
export class Engine {
  readonly #exports: typeof Exports;
  readonly #text: Uint8Array;
  readonly #code: Uint8ClampedArray;
  readonly #key: Uint8Array;
  readonly #output: Uint8Array;
  #loaded: PreparedKey | undefined;

  constructor(instance: WebAssembly.Instance) {
    const exports = (this.#exports = instance.exports as unknown as typeof Exports);
    const { buffer } = exports.memory;
    this.#text = new Uint8Array(buffer, exports.text_buffer(), TEXT_LENGTH);
    // Clamped, so that a character beyond the first 256 does not pass for the one that has its low byte.
    this.#code = new Uint8ClampedArray(buffer, exports.code_buffer(), CODE_LENGTH);
    this.#key = new Uint8Array(buffer, exports.key_buffer(), KEY_LENGTH);
    this.#output = new Uint8Array(buffer, exports.output_buffer(), 80);
  }

  /** Prepares a key written in hexadecimal, or 32 bytes; `undefined` for any other string. */
  prepare(key: string | Uint8Array): PreparedKey | undefined {
    let hex = -1;
    this.#loaded = undefined;
    if (typeof key === "string") hex = this.#write(key);
    else this.#text.set(key);
    const status = this.#exports.prepare_key(hex);
    return status === OK ? (this.#key.slice() as PreparedKey) : undefined;
  }

  /** Judges a token with one key; the number is one of `status.ts`. */
  verify(token: string, action: Action, code: string | undefined, key: PreparedKey): number {
    this.#load(key);
    return this.#exports.verify(this.#write(token), actionNumber(action), this.#writeCode(code));
  }

  /** The parts of a token, of which nothing is proven, or the number that says why it is none. */
  inspect(token: string): Fields | number {
    const status = this.#exports.inspect(this.#write(token));
    if (status !== OK) return status;
    return { secret: this.#output.slice(0, 32), tag: this.#output.slice(32, 64), id: this.#output.slice(64, 80) };
  }

  /** The tag that the token should have. Whoever learns it can forge the link. */
  expectedTag(token: string, action: Action, code: string | undefined, key: PreparedKey): Uint8Array | number {
    this.#load(key);
    const status = this.#exports.expected_tag(this.#write(token), actionNumber(action), this.#writeCode(code));
    return status === OK ? this.#output.slice(0, 32) : status;
  }

  #load(key: PreparedKey): void {
    if (this.#loaded === key) return;
    this.#key.set(key);
    this.#loaded = key;
  }

  /** Writes a text and returns its length; one that is too long is not looked at. */
  #write(text: string): number {
    return text.length > TEXT_LENGTH ? TEXT_LENGTH : encoder.encodeInto(text, this.#text).written;
  }

  #writeCode(code: string | undefined): number {
    if (code === undefined) return -1;
    const length = Math.min(code.length, CODE_LENGTH);
    for (let index = 0; index < length; index++) this.#code[index] = code.charCodeAt(index);
    return length;
  }
}

/** The number of an action, as `Action::number` in the core has it. */
function actionNumber(action: Action): 1 | 2 {
  return action === "activate" ? 1 : 2;
}
