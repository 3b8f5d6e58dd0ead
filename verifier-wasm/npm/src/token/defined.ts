import type { FurtherAction } from "./types.js";

/**
 * By this, verifiers find what they read of further actions. It is the same in every copy of the
 * package, and not copied where an object is spread.
 */
export const DEFINED: unique symbol = /* @__PURE__ */ Symbol.for("mailroom-verifier.actions");

/** Further actions, as `defineActions` of `mailroom-verifier/actions` makes them. */
export interface FurtherActions<Further extends string> {
  /** Of each action its name, its number, and how many digits its code has. */
  readonly [DEFINED]: readonly (readonly [Further, number, number])[];
}

/** The definitions that verifiers take, by name. */
export type Defined<Definitions> = Definitions & FurtherActions<Extract<keyof Definitions, string>>;

/** @internal Lets verifiers take definitions that are right. */
export function defined<Definitions extends { readonly [name: string]: FurtherAction }>(
  definitions: Definitions,
): Defined<Definitions> {
  const value = Object.entries(definitions).map(([name, { number, digits }]) => [
    name,
    number,
    digits,
  ]);
  return Object.freeze(Object.defineProperty(definitions, DEFINED, { value })) as never;
}

/** @internal What verifiers read of further actions; throws where nothing was defined. */
export function definedIn(actions: unknown): FurtherActions<string>[typeof DEFINED] {
  const found = (actions as FurtherActions<string>)[DEFINED];
  if (!Array.isArray(found)) throw new TypeError("no further actions");
  return found;
}
