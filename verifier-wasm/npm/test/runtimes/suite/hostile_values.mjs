// Every kind of value that a caller may pass where it does not belong. None of them is what any
// test has for good.

import { notStrings, thrower, throwingProxy } from "./hostile.mjs";

/** The numbers that mean something inside of the package; each is tried with its neighbours. */
const CONSTANTS = [
  ...[0, 5, 8, 16, 32, 86, 104, 124, 147, 160, 196, 256, 1000, 1024, 65_536],
  // The tries and marks of a store, the formats' ends of time, the longest spans,
  // the largest capacity.
  ...[100, 300, 600, 999, 253_402_300_799, 315_576_000, 26_843_545, 2 ** 31, 2 ** 32, 2 ** 53],
];

/**
 * Each with a name, and made anew for each caller, since some can be used up.
 *
 * @param {string} text what some of them pretend to be
 * @param {() => void} reenter calls the package while it reads an argument
 * @returns {[string, unknown][]}
 */
export function hostileValues(text, reenter) {
  return [
    ...notStrings(text),
    ...numbers().map((number) => [`the number ${Object.is(number, -0) ? "-0" : number}`, number]),
    ...[-2n, 0n, 1n, 2n ** 64n].map((number) => [`the bigint ${number}`, number]),
    ...texts(text),
    ...objects(text, reenter),
    ...buffers(),
  ];
}

function numbers() {
  const near = CONSTANTS.flatMap((constant) => [-1, 0, 1].map((step) => constant + step));
  const fractions = [0.5, -0.5, 1e-7, 5e-324, 4.99999, 1e300, -(2 ** 31), -(2 ** 32), -(2 ** 53)];
  return [...new Set([...near, -3, -2, 2, 3, 48_151, ...fractions, NaN, Infinity, -Infinity]), -0];
}

function texts(text) {
  return [
    ["the empty text", ""],
    ["a digit", "0"],
    ["the text -2", "-2"],
    ["a lone high surrogate", "\ud800"],
    ["a lone low surrogate", "\udfff"],
    ["surrogates in the wrong order", "\udc00\ud800".repeat(text.length)],
    ["a NUL", "\0"],
    ["the text with a line end", `${text}\n`],
    ["the text with a byte order mark", `\ufeff${text}`],
    [
      "the text in full width",
      text.replace(/[!-~]/g, (one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0)),
    ],
    ["the name of the prototype", "__proto__"],
    ["the name of the constructor", "constructor"],
    ["a megabyte", "A".repeat(1_000_000)],
    ["a megabyte of surrogates", "\ud800".repeat(500_000)],
  ];
}

function objects(text, reenter) {
  const reentrant = (answer) => {
    const get = () => {
      reenter();
      return answer();
    };
    return new Proxy({}, { get });
  };
  const thenable = (then) =>
    Object.defineProperty({}, ["then"].join(), { value: then, enumerable: true });
  const throwing = Object.defineProperty({}, ["then"].join(), { get: thrower, enumerable: true });
  const circular = [];
  circular.push(circular);
  return [
    ["an object whose value is -2", { valueOf: () => -2, [Symbol.toPrimitive]: () => -2 }],
    ["an object whose value is 1", { valueOf: () => 1, [Symbol.toPrimitive]: () => 1 }],
    ["an object whose value is true", { valueOf: () => true }],
    ["an array of numbers", [1]],
    ["an array of itself", circular],
    [
      "an array that says it is longer",
      new Proxy([], { get: (list, name) => (name === "length" ? 2000 : list[name]) }),
    ],
    [
      "options by inheritance",
      Object.create({ action: "activate", code: text, keys: text, clock: () => 0 }),
    ],
    [
      "options with a prototype of their own name",
      JSON.parse('{"__proto__":{"action":"activate"}}'),
    ],
    ["a proxy that answers true", new Proxy({}, { get: () => true, has: () => true })],
    ["a proxy that answers itself", itself()],
    ["a function that throws at every touch", throwingProxy(() => true)],
    ["a proxy that re-enters and answers nothing", reentrant(() => undefined)],
    ["a proxy that re-enters and answers true", reentrant(() => true)],
    ["a proxy that re-enters and throws", reentrant(thrower)],
    ["a getter of then that throws", throwing],
    ["a thenable that throws", thenable(thrower)],
    ["a thenable of true", thenable((resolve) => resolve(true))],
    [
      "a thenable that answers twice",
      thenable((resolve, reject) => [resolve(1), reject(2), resolve(true)]),
    ],
    ["a rejected promise", handled(Promise.reject(new RangeError("thrown on purpose")))],
    ["an async function", async () => true],
    ["a generator", (function* () {})()],
    ["a set", new Set([text])],
    ["a weak map", new WeakMap()],
    ["an error", new TypeError("of the caller")],
    ["an invalid date", new Date(NaN)],
    ["a boxed number", new Number(-2)],
    ["a boxed boolean", new Boolean(true)],
    ["the global object", globalThis],
    ["the prototype of objects", Object.prototype],
    ["a realm's own Array", Array],
  ];
}

function itself() {
  const proxy = new Proxy(function of() {}, {
    get: (target, name) => (name === "prototype" ? target.prototype : proxy),
    apply: () => proxy,
    construct: () => proxy,
  });
  return proxy;
}

function buffers() {
  const kinds = [Int8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array];
  const wide = [Float32Array, Float64Array, BigInt64Array, BigUint64Array];
  return [
    ...[...kinds, ...wide].flatMap((Kind) => [
      [`a ${Kind.name} of 32`, new Kind(32)],
      [`a ${Kind.name} of 16`, new Kind(16)],
    ]),
    ...[0, 1, 15, 17, 31, 33, 64].map((length) => [`${length} bytes`, new Uint8Array(length)]),
    ["a view", new DataView(new ArrayBuffer(32))],
    ["a buffer", new ArrayBuffer(32)],
    ["16 bytes that were given away", transferred(new Uint8Array(16))],
    ["32 bytes that were given away", transferred(new Uint8Array(32))],
    ["a buffer that was given away", transferred(new Uint8Array(32)).buffer],
    [
      "16 bytes that say they are 32",
      Object.defineProperty(new Uint8Array(16), "length", { value: 32 }),
    ],
    [
      "5 bytes that say they are 16",
      Object.defineProperty(new Uint8Array(5), "length", { value: 16 }),
    ],
    ["a proxy of 16 bytes", new Proxy(new Uint8Array(16), {})],
    ["an object with the prototype of bytes", Object.create(Uint8Array.prototype)],
    ...shared(),
    ...resized(),
  ];
}

/** Bytes that another thread may change, where the runtime has them. */
function shared() {
  if (typeof SharedArrayBuffer === "undefined") return [];
  return [
    ["a shared buffer", new SharedArrayBuffer(32)],
    ["5 shared bytes", new Uint8Array(new SharedArrayBuffer(5))],
  ];
}

/** Bytes whose buffer has become too short for them, where the runtime has such. */
function resized() {
  if (typeof ArrayBuffer.prototype.resize !== "function") return [];
  const buffer = new ArrayBuffer(32, { maxByteLength: 64 });
  const outside = new Uint8Array(buffer, 0, 32);
  buffer.resize(8);
  return [
    ["32 bytes out of their buffer", outside],
    ["a resizable buffer", new ArrayBuffer(16, { maxByteLength: 64 })],
  ];
}

function transferred(bytes) {
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
  return bytes;
}

/** A rejection that nobody waits for ends some runtimes. */
export function handled(promise) {
  promise.catch(() => {});
  return promise;
}
