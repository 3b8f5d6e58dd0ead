import { Engine, type KeyKind } from "./engine.js";
import { InvalidArgumentError, WasmUnavailableError } from "./errors.js";

/** A module that has been started. */
export interface Started {
  readonly engine: Engine;
  /** What further instances are made of; not known where the caller made the instance. */
  readonly module: WebAssembly.Module | undefined;
}

interface StartedModule extends Started {
  readonly module: WebAssembly.Module;
}

const A = 0x61;

/**
 * Compiles a module of which each half of a byte is a letter from a to p: gzip finds in it what it finds in the bytes,
 * which base64 hides from it.
 */
export function decode(letters: string): WebAssembly.Module {
  const bytes = new Uint8Array(letters.length / 2);
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = ((letters.charCodeAt(2 * at) - A) << 4) | (letters.charCodeAt(2 * at + 1) - A);
  }
  return new WebAssembly.Module(bytes);
}

/**
 * Starts the module while the entry is being imported: some runtimes compile WebAssembly only then. What goes wrong is
 * thrown by the first call, so that importing never fails.
 */
export function startNow(kind: KeyKind, compile: () => WebAssembly.Module): () => StartedModule {
  let started: StartedModule;
  try {
    const module = compile();
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
