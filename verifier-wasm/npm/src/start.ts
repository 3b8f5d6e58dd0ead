import { Engine, type KeyKind } from "./engine.js";
import { InvalidArgumentError, WasmUnavailableError } from "./errors.js";
import type { Bytes } from "./types.js";

/** A module that has been started. */
export interface Started {
  readonly engine: Engine;
  /** What further instances are made of; not known where the caller made the instance. */
  readonly module: WebAssembly.Module | undefined;
}

interface StartedModule extends Started {
  readonly module: WebAssembly.Module;
}

/** What Node and newer runtimes have to read hexadecimal digits with. */
interface Decoders {
  readonly Uint8Array: { fromHex?(digits: string): Bytes };
  readonly Buffer?: { from(digits: string, encoding: "hex"): Bytes };
}

/**
 * Compiles a module that is written in hexadecimal digits: gzip finds in them what it finds in the bytes, which base64 hides
 * from it, and most runtimes read them at once, where a loop takes two milliseconds of the start.
 */
export function compile(digits: string): WebAssembly.Module {
  const runtime = globalThis as unknown as Decoders;
  const bytes = runtime.Uint8Array.fromHex?.(digits) ?? runtime.Buffer?.from(digits, "hex") ?? spelt(digits);
  return new WebAssembly.Module(bytes);
}

function spelt(digits: string): Bytes {
  const bytes = new Uint8Array(digits.length / 2);
  for (let at = 0; at < bytes.length; at++) bytes[at] = Number.parseInt(digits.substr(2 * at, 2), 16);
  return bytes;
}

/**
 * Starts the module while the entry is being imported: some runtimes compile WebAssembly only then. What goes wrong is
 * thrown by the first call, so that importing never fails.
 */
export function startNow(kind: KeyKind, load: () => WebAssembly.Module): () => StartedModule {
  let started: StartedModule;
  try {
    const module = load();
    started = { engine: new Engine(new WebAssembly.Instance(module), kind), module };
  } catch (cause) {
    return () => {
      throw new WasmUnavailableError(
        "WebAssembly cannot be started here: allow 'wasm-unsafe-eval' in the Content-Security-Policy, " +
          "or load mailroom-verifier/verifier.wasm yourself and use mailroom-verifier/slim",
        { cause },
      );
    };
  }
  return () => started;
}

/** The engine of each instance: two that share a memory would take each other's key for their own. */
const engines = new WeakMap<WebAssembly.Instance, Engine>();

/** Starts a module that the caller has loaded. */
export function startLoaded(kind: KeyKind, source: unknown): Started {
  try {
    const isInstance = source instanceof WebAssembly.Instance;
    const module = isInstance ? undefined : (source as WebAssembly.Module);
    const instance = isInstance ? source : new WebAssembly.Instance(source as WebAssembly.Module);
    const engine = engines.get(instance) ?? new Engine(instance, kind);
    engines.set(instance, engine);
    return { engine, module };
  } catch (cause) {
    throw new InvalidArgumentError("this is not the WebAssembly module of mailroom-verifier/verifier.wasm", {
      cause,
    });
  }
}
