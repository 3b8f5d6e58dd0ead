/** The exports of a module that has a stack of its own in its memory. */
interface StackedExports {
  readonly __stack_pointer: WebAssembly.Global<"i32">;
}

/**
 * The stack of a module. A call that does not return, because JavaScript's own stack overflowed in
 * the middle of it, does not free its part of the module's stack; the next call does.
 */
export class Stack {
  readonly #pointer: WebAssembly.Global<"i32">;
  readonly #top: number;
  #inUse = false;

  constructor(instance: WebAssembly.Instance) {
    this.#pointer = (instance.exports as unknown as StackedExports).__stack_pointer;
    this.#top = this.#pointer.value;
  }

  /** To be called before every call of the module. */
  enter(): void {
    if (this.#inUse) this.#pointer.value = this.#top;
    this.#inUse = true;
  }

  /** To be called once it has returned. */
  leave(): void {
    this.#inUse = false;
  }
}
