import { InvalidArgumentError } from "../errors/errors.js";

const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as object;

/**
 * Whether this is a `Uint8Array` of `length` bytes, of any realm.
 * Properties of the object itself are ignored.
 */
export function isBytes(value: unknown, length: number): value is Uint8Array {
  const is = (name: string | symbol, found: unknown): boolean =>
    Reflect.get(typedArray, name, value) === found;
  return ArrayBuffer.isView(value) && is(Symbol.toStringTag, "Uint8Array") && is("length", length);
}

/** Throws for a wrong argument of a store's method. */
export function demandEntry(id: unknown, rememberUntil: unknown, owner: unknown): void {
  if (
    !isBytes(id, 16) ||
    !isBytes(owner, 16) ||
    typeof rememberUntil !== "number" ||
    Number.isNaN(rememberUntil)
  ) {
    throw new InvalidArgumentError(
      "an id and an owner have 16 bytes each, rememberUntil is in seconds",
    );
  }
}
