/** Bytes of the heap in use after a garbage collection; Node and Deno need `--expose-gc`. */
export function heapUsed() {
  if (globalThis.Bun !== undefined) {
    Bun.gc(true);
    return process.memoryUsage().heapUsed;
  }
  // Objects that wait for a finalizer are gone after the next turn.
  globalThis.gc();
  globalThis.gc();
  return globalThis.Deno?.memoryUsage().heapUsed ?? process.memoryUsage().heapUsed;
}
