import { Engine } from "./engine.js";
import { InvalidArgumentError, WasmUnavailableError } from "./errors.js";

/**
 * Starts the module while the entry is being imported: some runtimes compile WebAssembly only then. What goes wrong is
 * thrown by the first call, so that importing never fails.
 */
export function startNow(compile: () => WebAssembly.Module): () => Engine {
  let engine: Engine;
  try {
    engine = new Engine(new WebAssembly.Instance(compile()));
  } catch (cause) {
    return () => {
      throw new WasmUnavailableError(
        "WebAssembly cannot be started here: allow 'wasm-unsafe-eval' in the Content-Security-Policy, " +
          "or load mailroom-verifier/verifier.wasm yourself and use mailroom-verifier/slim",
        { cause },
      );
    };
  }
  return () => engine;
}

/** The engine of each instance: two that share a memory would take each other's key for their own. */
const engines = new WeakMap<WebAssembly.Instance, Engine>();

/** Starts a module that the caller has loaded. */
export function startLoaded(source: unknown): Engine {
  try {
    const instance =
      source instanceof WebAssembly.Instance
        ? source
        : new WebAssembly.Instance(source as WebAssembly.Module);
    const engine = engines.get(instance) ?? new Engine(instance);
    engines.set(instance, engine);
    return engine;
  } catch (cause) {
    throw new InvalidArgumentError("this is not the WebAssembly module of mailroom-verifier/verifier.wasm", {
      cause,
    });
  }
}
