import type { Bytes } from "./types.js";

/** An action that a verifier knows. */
export interface KnownAction {
  readonly name: string;
  /** Its number in tokens. */
  readonly number: number;
  /** The number of digits of its code; 0 for none. */
  readonly digits: number;
  /** Of all actions of its verifier. */
  readonly list: Bytes;
}

/** The actions of a verifier. */
export class Actions {
  readonly #named = new Map<string, KnownAction>();
  /** For each number the digits of the code, or 255; as the module reads it. */
  readonly list: Bytes = new Uint8Array(128).fill(255);

  constructor() {
    this.add("activate", 1, 0);
    this.add("recover", 2, 5);
  }

  add(name: string, number: number, digits: number): void {
    this.list[number] = digits;
    this.#named.set(name, { name, number, digits, list: this.list });
  }

  find(name: unknown): KnownAction | undefined {
    return this.#named.get(name as string);
  }
}

/** Those of a verifier that is given no others. */
export const BUILT_IN = new Actions();
