/** The module, where the runtime or the bundler imports `.wasm` files as modules (workerd). */
declare const module: WebAssembly.Module;
export default module;
