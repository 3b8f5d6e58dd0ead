import type * as Exports from "./generated/verifier_bg.wasm.js";
import { OK, refusal } from "./status.js";
import type { Action, Bytes } from "./types.js";

/** A key as the module prepares it: two states of SHA-256. As secret as the key itself. */
export type PreparedKey = Bytes & { readonly prepared: unique symbol };

const TEXT_LENGTH = 160;
const CODE_LENGTH = 8;
const KEY_LENGTH = 64;
const OUTPUT_LENGTH = 64;

/** What the linker exports beside them. */
interface Linked {
  readonly __stack_pointer: WebAssembly.Global<"i32">;
}

const encoder = new TextEncoder();

/**
 * One instance of the WebAssembly module, and the places in its memory through which bytes cross.
 *
 * Every method reads all it needs from its arguments, which are primitive or copied before, then fills the places and
 * calls: no code of the caller runs in between, so calls cannot disturb each other.
 */
export class Engine {
  readonly #exports: typeof Exports;
  readonly #text: Bytes;
  readonly #code: Uint8ClampedArray;
  readonly #key: Bytes;
  readonly #output: Bytes;
  readonly #stackPointer: WebAssembly.Global<"i32">;
  readonly #stackStart: number;
  #loaded: PreparedKey | undefined;
  /** Whether a call is going on, or was and never came back. */
  #inside = false;

  constructor(instance: WebAssembly.Instance) {
    const exports = instance.exports as unknown as typeof Exports & Linked;
    const { buffer } = exports.memory;
    this.#exports = exports;
    this.#stackPointer = exports.__stack_pointer;
    this.#stackStart = exports.__stack_pointer.value;
    this.#text = new Uint8Array(buffer, exports.text_buffer(), TEXT_LENGTH);
    // Clamped, so that a character beyond the first 256 does not pass for the one that has its low byte.
    this.#code = new Uint8ClampedArray(buffer, exports.code_buffer(), CODE_LENGTH);
    this.#key = new Uint8Array(buffer, exports.key_buffer(), KEY_LENGTH);
    this.#output = new Uint8Array(buffer, exports.output_buffer(), OUTPUT_LENGTH);
  }

  /** Prepares a key written in hexadecimal, or 32 bytes; `undefined` for any other string. */
  prepare(key: string | Uint8Array): PreparedKey | undefined {
    let hex = -1;
    this.#loaded = undefined;
    if (typeof key === "string") hex = this.#write(key);
    else this.#text.set(key);
    this.#enter();
    const status = this.#leave(this.#exports.prepare_key(hex));
    return status === OK ? (this.#key.slice() as PreparedKey) : undefined;
  }

  /** Judges a token with one key; the number is one of `status.ts`. */
  verify(token: string, action: Action, code: string | undefined, key: PreparedKey): number {
    this.#load(key);
    this.#enter();
    return this.#leave(this.#exports.verify(this.#write(token), actionNumber(action), this.#writeCode(code)));
  }

  /** The secret that a token carries. Nothing is proven of it. */
  secret(token: string): Bytes {
    this.#enter();
    this.#demand(this.#exports.inspect(this.#write(token)));
    return this.#output.slice(0, 32);
  }

  /** The tag that a token carries. Nothing is proven of it. */
  tag(token: string): Bytes {
    this.#enter();
    this.#demand(this.#exports.inspect(this.#write(token)));
    return this.#output.slice(32, 64);
  }

  /** The id under which the use of a token is remembered. */
  id(token: string): Bytes {
    this.#enter();
    this.#demand(this.#exports.identify(this.#write(token)));
    return this.#output.slice(0, 16);
  }

  /** The tag that the token should have. Whoever learns it can forge the link. */
  expectedTag(token: string, action: Action, code: string | undefined, key: PreparedKey): Bytes {
    this.#load(key);
    this.#enter();
    this.#demand(this.#exports.expected_tag(this.#write(token), actionNumber(action), this.#writeCode(code)));
    return this.#output.slice(0, 32);
  }

  /**
   * Comes before every call of the module, and {@link #leave} behind it.
   *
   * Where JavaScript's stack ends in the middle of a call, that call never gives back what it took of the module's own
   * stack. A few dozen of them would leave none for any call after.
   */
  #enter(): void {
    if (this.#inside) this.#stackPointer.value = this.#stackStart;
    this.#inside = true;
  }

  #leave(status: number): number {
    this.#inside = false;
    return status;
  }

  #demand(status: number): void {
    if (this.#leave(status) !== OK) throw refusal(status);
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
