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

/**
 * Compiles a module that is written in hexadecimal. It is twice as long so, but half of that vanishes when it is
 * compressed on its way, which base64 would prevent.
 */
export function decode(hexadecimal: string): WebAssembly.Module {
  const bytes = new Uint8Array(hexadecimal.length / 2);
  for (let index = 0; index < bytes.length; index++) {
    bytes[index] = (digit(hexadecimal, 2 * index) << 4) | digit(hexadecimal, 2 * index + 1);
  }
  return new WebAssembly.Module(bytes);
}

/** The value of one of the digits 0 to 9 and a to f. */
function digit(hexadecimal: string, at: number): number {
  const character = hexadecimal.charCodeAt(at);
  return character < 58 ? character - 48 : character - 87;
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
