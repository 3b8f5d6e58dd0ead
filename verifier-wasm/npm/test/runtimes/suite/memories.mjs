// Import this before the package: it remembers the memory of every WebAssembly instance made later,
// so that the suite can see whether it grows. Instances stay what they would be.

/** The memories, in the order in which their instances were made. */
export const memories = [];

const { Instance } = WebAssembly;

WebAssembly.Instance = new Proxy(Instance, {
  construct(target, args, newTarget) {
    const instance = Reflect.construct(
      target,
      args,
      newTarget === WebAssembly.Instance ? target : newTarget,
    );
    for (const value of Object.values(instance.exports)) {
      if (value instanceof WebAssembly.Memory) {
        memories.push(value);
      }
    }
    return instance;
  },
});
