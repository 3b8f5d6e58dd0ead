// Values that have no business where a string belongs.

/**
 * Everything that is no string, with a name for each. `text` is what some of them pretend to be.
 */
export function* notStrings(text) {
  const primitives = [
    undefined,
    null,
    true,
    false,
    0,
    -0,
    12345,
    NaN,
    Infinity,
    10n,
    Symbol("a"),
    Symbol.iterator,
  ];
  for (const value of primitives) {
    yield [String(value), value];
  }
  yield ["an object", {}];
  yield ["an object without a prototype", Object.create(null)];
  yield ["an empty array", []];
  yield ["an array of the text", [text]];
  yield ["an array of its characters", [...text]];
  yield ["a String object", new String(text)];
  yield ["a function", () => text];
  yield ["a class", class {}];
  yield ["a date", new Date(0)];
  yield ["a regular expression", /./];
  yield ["a map", new Map()];
  yield ["a promise", Promise.resolve(text)];
  yield ["an iterator", text[Symbol.iterator]()];
  yield ["its bytes", Uint8Array.from(text, (character) => character.charCodeAt(0))];
  yield [
    "its bytes as a buffer",
    Uint8Array.from(text, (character) => character.charCodeAt(0)).buffer,
  ];
  yield [
    "an object that converts to the text",
    { toString: () => text, valueOf: () => text, toJSON: () => text },
  ];
  yield ["an object that behaves like the text", imitation(text)];
  yield ["an object whose conversion throws", { [Symbol.toPrimitive]: thrower, toString: thrower }];
  yield ["an object whose length throws", Object.defineProperty({}, "length", { get: thrower })];
  yield ["an object whose prototype is String.prototype", Object.create(String.prototype)];
  yield ["a proxy of nothing", new Proxy({}, {})];
  yield ["a proxy of a String object", new Proxy(new String(text), {})];
  yield ["a proxy of a function", new Proxy(() => text, {})];
  yield ["a proxy that throws at every touch", throwingProxy({})];
  yield ["a proxy of an array that throws at every touch", throwingProxy([])];
  yield ["a revoked proxy", revokedProxy()];
}

/**
 * Strings that are like `text`, which is ASCII, and are not it; none has a character of ASCII in
 * place of another.
 */
export function* notAscii(text) {
  const wide = (character, plane) => String.fromCharCode(character.charCodeAt(0) + plane);
  for (const at of [0, 1, Math.floor(text.length / 2), text.length - 1]) {
    const put = (character) => text.slice(0, at) + character + text.slice(at + 1);
    yield [`a high surrogate at ${at}`, put("\ud800")];
    yield [`a low surrogate at ${at}`, put("\udfff")];
    yield [`NUL at ${at}`, put("\0")];
    yield [`a character of two bytes at ${at}`, put("é")];
    yield [`a character that is the right one modulo 128 at ${at}`, put(wide(text[at], 0x80))];
    yield [`a character that is the right one modulo 256 at ${at}`, put(wide(text[at], 0x100))];
    yield [`a character that is the right one modulo 65280 at ${at}`, put(wide(text[at], 0xff00))];
    yield [`a full-width character at ${at}`, put(wide(text[at], 0xfee0))];
    yield [`a byte order mark before ${at}`, `${text.slice(0, at)}\ufeff${text.slice(at)}`];
    yield [`an invisible space before ${at}`, `${text.slice(0, at)}\u200b${text.slice(at)}`];
  }
  yield ["surrogates in the wrong order", "\udc00\ud800".repeat(text.length / 2)];
  yield ["high surrogates only", "\ud800".repeat(text.length)];
  yield ["emoji of the same length", "😀".repeat(Math.ceil(text.length / 2)).slice(0, text.length)];
  yield ["emoji of the same number", "😀".repeat(text.length)];
  yield [
    "the text with every character too wide",
    Array.from(text, (character) => wide(character, 0x100)).join(""),
  ];
}

/** Ten million characters, as one string and as a rope that was never put together. */
export function* huge(text) {
  const size = 10_000_000;
  yield ["10 MB of one letter", "A".repeat(size)];
  yield ["10 MB that begin with the text", text + "A".repeat(size)];
  yield ["10 MB of the text", text.repeat(Math.ceil(size / text.length))];
  yield ["10 million wide characters", "\u0141".repeat(size)];
  yield ["10 million lone surrogates", "\ud800".repeat(size)];
  yield ["10 million NULs", "\0".repeat(size)];
}

/** The same text in the forms in which engines keep strings. */
export function* sameText(text) {
  const middle = Math.floor(text.length / 2);
  yield ["a rope", [...text].reduce((rope, character) => rope + character, "")];
  yield ["a rope of two", text.slice(0, middle) + text.slice(middle)];
  yield ["a slice", `${"-".repeat(100)}${text}${"-".repeat(100)}`.slice(100, 100 + text.length)];
  yield ["a slice of a wide string", `\u{1f600}${text}`.slice(2)];
  yield ["parsed", JSON.parse(JSON.stringify(text))];
  yield ["joined", [...text].join("")];
  yield [
    "from character codes",
    String.fromCharCode(...Array.from(text, (character) => character.charCodeAt(0))),
  ];
  yield ["from a URL", new URL(`https://example.com/?t=${text}`).searchParams.get("t")];
}

export function thrower() {
  throw new RangeError("thrown on purpose");
}

export function throwingProxy(target) {
  return new Proxy(target, new Proxy({}, { get: () => thrower }));
}

export function revokedProxy() {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

function imitation(text) {
  return {
    length: text.length,
    charCodeAt: (at) => text.charCodeAt(at),
    codePointAt: (at) => text.codePointAt(at),
    charAt: (at) => text.charAt(at),
    slice: (...range) => text.slice(...range),
    toString: () => text,
    [Symbol.iterator]: () => text[Symbol.iterator](),
  };
}
