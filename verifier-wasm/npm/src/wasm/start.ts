import { InvalidArgumentError, WasmUnavailableError } from "../errors/errors.js";
import { Engine, type KeyLength, SHARED_KEY } from "./engine.js";
import type * as Exports from "./generated/verifier_bg.wasm.js";

// The entries import it from here: what they import first comes first in their bundles, which
// compress best with the module first.
export { PUBLIC_KEY, SHARED_KEY } from "./engine.js";

/**
 * Of the 91 characters, those that encode a byte; the other two encode an offset for the next one.
 */
const BYTES = 89;
const CHARACTERS = 91;
/**
 * The byte that the first character encodes, so that the most frequent bytes take one character.
 */
const FIRST = 246;

/**
 * Compiles a module that is written in printable characters, of # to ~ all but the backslash: the
 * more frequent bytes as one of them, the others as two. Gzip finds the repetitions of the bytes in
 * them, unlike in base64, and they are shorter than hexadecimal digits.
 */
export function compile(text: string): WebAssembly.Module {
  const bytes = new Uint8Array(text.length);
  let length = 0;
  let more = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at);
    const value = character - (character > 92 ? 36 : 35);
    if (more || value < BYTES) {
      bytes[length++] = value + more + FIRST;
      more = 0;
    } else {
      more = value === BYTES ? BYTES : BYTES + CHARACTERS;
    }
  }
  return new WebAssembly.Module(bytes.subarray(0, length));
}

/**
 * Starts the module while the entry is being imported: some runtimes compile WebAssembly only then.
 * Errors are thrown by the first call, so that importing never fails.
 */
export function startNow(keyLength: KeyLength, load: () => WebAssembly.Module): () => Engine {
  let engine: Engine;
  try {
    engine = new Engine(new WebAssembly.Instance(load()), keyLength);
  } catch (cause) {
    return () => {
      throw new WasmUnavailableError("WebAssembly does not start", { cause });
    };
  }
  return () => engine;
}

/**
 * The engine of each instance: two engines on one memory would use each other's key, so the module
 * accepts one. Another copy of this package does not find that engine here, and is refused.
 */
const engines = new WeakMap<WebAssembly.Instance, Engine>();

/** Starts a module that the caller has loaded. */
export function startLoaded(keyLength: KeyLength, source: unknown): Engine {
  try {
    const instance =
      source instanceof WebAssembly.Instance
        ? source
        : new WebAssembly.Instance(source as WebAssembly.Module);
    const { verify_link } = instance.exports as unknown as typeof Exports;
    // That of public keys takes who checks the signature, too.
    if (verify_link.length !== (keyLength === SHARED_KEY ? 5 : 6)) {
      throw new TypeError("the module is for the other kind of keys");
    }
    const engine = engines.get(instance) ?? new Engine(instance, keyLength);
    engines.set(instance, engine);
    return engine;
  } catch (cause) {
    const file = keyLength === SHARED_KEY ? "verifier.wasm" : "public.wasm";
    throw new InvalidArgumentError(
      `this is not the module in mailroom-verifier/${file}, ` +
        "or an instance of it that is in use already",
      { cause },
    );
  }
}
