// Arguments of `createVerifier` that are no keys.

import { notAscii, notStrings, revokedProxy, thrower, throwingProxy } from "./hostile.mjs";

/** Each with a name. `key` is 64 hexadecimal characters. */
export function* hostileVerifiers(key) {
  yield ["no argument", undefined];
  for (const [what, value] of notStrings(key)) {
    yield [`${what} instead of options`, value];
  }
  yield ["the key instead of options", key];
  yield [
    "options whose keys throw",
    Object.defineProperty({}, "keys", { get: thrower, enumerable: true }),
  ];
  for (const [what, value] of hostileKeys(key)) {
    yield [`${what} in a ring`, { keys: [key, value] }];
    // An array of the key is a ring, and a function gives the keys at the first use.
    if (what !== "an array of the text" && typeof value !== "function") {
      yield [`${what} as keys`, { keys: value }];
    }
  }
  for (const [what, keys] of hostileRings(key)) {
    yield [`${what} as keys`, { keys }];
  }
}

function* hostileKeys(key) {
  yield* notStrings(key);
  for (const [what, text] of notAscii(key)) {
    yield [`a text with ${what}`, text];
  }
  for (const text of [
    "",
    "0",
    key.slice(1),
    `${key}0`,
    `0x${key.slice(2)}`,
    ` ${key.slice(1)}`,
    `${key.slice(1)}\n`,
  ]) {
    yield [`a text of ${text.length} characters`, text];
  }
  yield ["a letter that is no digit", `${key.slice(0, 40)}g${key.slice(41)}`];
  yield ["10 MB of digits", "0".repeat(10_000_000)];
  for (const length of [0, 1, 31, 33, 64, 10_000_000]) {
    yield [`${length} bytes`, new Uint8Array(length)];
  }
  yield ["16 numbers of two bytes", new Uint16Array(16)];
  yield ["32 signed bytes", new Int8Array(32)];
  yield ["32 floating-point numbers", new Float64Array(32)];
  yield ["a view", new DataView(new ArrayBuffer(32))];
  yield ["a buffer", new ArrayBuffer(32)];
  yield ["an array of 32 numbers", new Array(32).fill(0)];
  yield ["bytes that were given away", transferred()];
  yield ["a proxy of 32 bytes", new Proxy(new Uint8Array(32), {})];
  yield ["an object with the prototype of bytes", Object.create(Uint8Array.prototype)];
  yield [
    "5 bytes that say they are 32",
    Object.defineProperty(new Uint8Array(5), "length", { value: 32 }),
  ];
  yield [
    "an object that behaves like 32 bytes",
    { length: 32, byteLength: 32, ...new Array(32).fill(0) },
  ];
}

function* hostileRings(key) {
  yield ["an empty list", []];
  yield ["a list of the characters of a key", [...key]];
  yield ["a list with a hole", Object.assign([], { 0: key, 2: key })];
  yield ["a list of holes", new Array(3)];
  yield ["a list of lists", [[key]]];
  yield ["a list that throws at its element", Object.defineProperty([key], 0, { get: thrower })];
  yield [
    "a list whose iterator throws",
    Object.assign([undefined], { [Symbol.iterator]: thrower }),
  ];
  yield ["a proxy of a list that throws", throwingProxy([key])];
  yield ["a revoked proxy", revokedProxy()];
  yield ["a set", new Set([key])];
  yield ["an object like a list", { 0: key, length: 1 }];
  yield ["more keys than a verifier takes", new Array(1025).fill(key)];
  yield ["a list of four billion holes", new Array(2 ** 32 - 1)];
  // A list says how long it is by a property, and a proxy gives for it what it likes.
  const lengths = [
    Infinity,
    2 ** 53,
    1e9,
    NaN,
    -1,
    "1x",
    "",
    null,
    undefined,
    {},
    10n ** 30n,
    Symbol("1"),
    thrower,
  ];
  for (const length of lengths) {
    yield [`a list of a key that says it has ${String(length)} elements`, listOf(key, length)];
  }
  yield [
    "a list whose length cannot be converted",
    listOf(key, { valueOf: thrower, toString: thrower }),
  ];
}

/** A list of as many keys as one asks for, whatever its length is said to be. */
function listOf(key, length) {
  return new Proxy([], {
    get: (target, name) =>
      name === "length" ? length : /^\d+$/.test(String(name)) ? key : Reflect.get(target, name),
  });
}

function transferred() {
  const bytes = new Uint8Array(32);
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
  return bytes;
}
