// How long a verification takes says nothing about the key: which way it goes through the module,
// and which memory it touches, is the same for every key that did not sign the token, however much
// of its tag is right.

import assert from "node:assert/strict";
import { createHash, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { test } from "node:test";

import { packaged, start } from "./traced.mjs";

const OK = 0;
const SIGNATURE = 3;
const CODE_MISMATCH = 12;
const OTHER_BROWSER = 14;
const { exports, trace, places } = start(packaged());
const memory = new Uint8Array(exports.memory.buffer);
const PATHS = { activate: "/activate", recover: "/recover" };
const NUMBERS = { activate: 1, recover: 2 };
const CODE = "01234";
const NOW = 1_800_000_000;
/** Of a prepared key; the four bytes from `KEY_ID` on are its id. */
const KEY_LENGTH = 196;
const KEY_ID = 192;
/** Where text, code, nonce and prepared key lie, as `src/buffers.rs` has them. */
const TEXT = exports.buffers();
const CODES = TEXT + 176;
const NONCES = CODES + 16;
const KEYS = NONCES + 48 + 16 + 128;

function prepare(key) {
  memory.set(key, TEXT);
  assert.equal(exports.prepare_key(-1), OK);
  return memory.slice(KEYS, KEYS + KEY_LENGTH);
}

/** The trace of one verification with a key prepared before. */
function verification(prepared, token, action, expected, nonce = "") {
  memory.set(prepared, KEYS);
  memory.set(Buffer.from(token), TEXT);
  memory.set(Buffer.from(CODE), CODES);
  memory.set(Buffer.from(nonce), NONCES);
  const codeLength = action === "recover" ? CODE.length : -1;
  let status;
  const events = trace(() => {
    exports.load_key();
    status = exports.verify(token.length, NUMBERS[action], codeLength, nonce.length, NOW, 0);
  });
  assert.equal(status, expected);
  return events;
}

function sign(key, action, secret) {
  const mac = createHmac("sha256", key).update(PATHS[action]).update(secret);
  if (action === "recover") mac.update(CODE);
  return mac.digest();
}

/** A token of either version; `code` is what a recovery of v2 has behind its tag. */
function spell({ header, secret, tag, code }) {
  return Buffer.concat([header ?? Buffer.alloc(0), secret, tag, code ?? Buffer.alloc(0)]).toString(
    "base64url",
  );
}

/** What v2 puts before the secret. */
function header(key, action) {
  const expiresAt = Buffer.alloc(8);
  expiresAt.writeBigUInt64BE(BigInt(NOW + 900));
  return Buffer.concat([
    Buffer.from([2, NUMBERS[action]]),
    derive(key, "mailroom/v2 key id", 4),
    expiresAt,
  ]);
}

function derive(key, info, length = 32) {
  return Buffer.from(hkdfSync("sha256", key, "", info, length));
}

function mac(key, ...parts) {
  return createHmac("sha256", key).update(Buffer.concat(parts)).digest();
}

/** A prepared key that answers to the id of another one, as keys may. */
function under(id, prepared) {
  const impostor = prepared.slice();
  impostor.set(id.subarray(KEY_ID, KEY_ID + 4), KEY_ID);
  return impostor;
}

for (const action of ["activate", "recover"]) {
  test(`v2, ${action}: one wrong byte anywhere in the tag goes the way of 32 wrong bytes`, () => {
    const key = randomBytes(32);
    const parts = { header: header(key, action), secret: randomBytes(32) };
    const code = action === "recover" ? Buffer.alloc(15) : undefined;
    const genuine = mac(derive(key, "mailroom/v2 link"), parts.header, parts.secret);
    const near = prepare(key);
    const far = Array.from({ length: 8 }, () => under(near, prepare(randomBytes(32))));
    for (let byte = 0; byte < 32; byte++) {
      const tag = Buffer.from(genuine);
      tag[byte] ^= 1;
      const token = spell({ ...parts, tag, code });
      const events = verification(near, token, action, SIGNATURE);
      assert.ok(events.length > 500, `only ${events.length} events`);
      for (const other of far) {
        assert.ok(
          verification(other, token, action, SIGNATURE).join() === events.join(),
          `byte ${byte}`,
        );
      }
    }
  });
}

test("v2: one wrong byte anywhere in the code's tag goes the same way as 15 wrong bytes", () => {
  const key = randomBytes(32);
  const parts = { header: header(key, "recover"), secret: randomBytes(32) };
  const tag = mac(derive(key, "mailroom/v2 link"), parts.header, parts.secret);
  const genuine = mac(
    derive(key, "mailroom/v2 code"),
    parts.header,
    parts.secret,
    Buffer.from(CODE),
  ).subarray(0, 15);
  const prepared = prepare(key);
  const ways = (code) =>
    verification(prepared, spell({ ...parts, tag, code }), "recover", CODE_MISMATCH);
  // The characters themselves are looked up in a table: whoever sent them knows them.
  const decisions = (events) => events.filter((_, index) => index % 2 === 0).join();
  const expected = decisions(ways(randomBytes(15)));
  for (let byte = 0; byte < 15; byte++) {
    const code = Buffer.from(genuine);
    code[byte] ^= 1;
    assert.ok(decisions(ways(code)) === expected, `byte ${byte}`);
  }
  const accepted = verification(prepared, spell({ ...parts, tag, code: genuine }), "recover", OK);
  assert.ok(decisions(accepted) !== expected);
});

for (const action of ["activate", "recover"]) {
  test(`${action}: one wrong byte anywhere in the tag goes the same way as 32 wrong bytes`, () => {
    const key = randomBytes(32);
    const secret = randomBytes(32);
    const genuine = sign(key, action, secret);
    const [near, ...far] = [key, ...Array.from({ length: 8 }, () => randomBytes(32))].map(prepare);
    for (let byte = 0; byte < 32; byte++) {
      for (const bit of [0, 7]) {
        const tag = Buffer.from(genuine);
        tag[byte] ^= 1 << bit;
        const token = spell({ secret, tag });
        const events = verification(near, token, action, SIGNATURE);
        assert.ok(events.length > 500, `only ${events.length} events`);
        for (const other of far) {
          // Compared as text, because a difference need not be printed in full.
          assert.ok(
            verification(other, token, action, SIGNATURE).join() === events.join(),
            `byte ${byte}`,
          );
        }
      }
    }
  });

  test(`${action}: the secret in the token decides about nothing`, () => {
    const key = prepare(randomBytes(32));
    const decisions = () => {
      const token = spell({ secret: randomBytes(32), tag: randomBytes(32) });
      // The characters themselves are looked up in a table: whoever sent them knows them.
      return verification(key, token, action, SIGNATURE).filter((_, index) => index % 2 === 0);
    };
    const [first, ...others] = Array.from({ length: 20 }, decisions);
    for (const other of others) assert.ok(other.join() === first.join());
  });

  test(`${action}: the trace would show a difference, since it shows the verdict`, () => {
    const key = randomBytes(32);
    const secret = randomBytes(32);
    const token = spell({ secret, tag: sign(key, action, secret) });
    const accepted = verification(prepare(key), token, action, OK);
    const refused = verification(prepare(randomBytes(32)), token, action, SIGNATURE);
    assert.ok(accepted.join() !== refused.join());
    assert.ok(places > 200, `only ${places} places report`);
  });
}

test("bound: one wrong byte anywhere in the binding goes the same way as another browser", () => {
  const key = randomBytes(32);
  const prepared = prepare(key);
  const nonce = randomBytes(32).toString("base64url");
  const own = createHash("sha256").update(`mailroom/browser\0${nonce}`).digest().subarray(0, 16);
  const start = header(key, "activate");
  start[1] |= 0x80;
  const ways = (binding, expected) => {
    const signed = Buffer.concat([start, binding, randomBytes(32)]);
    const token = Buffer.concat([signed, mac(derive(key, "mailroom/v2 link"), signed)]).toString(
      "base64url",
    );
    // The characters themselves are looked up in a table: whoever sent them knows them.
    return verification(prepared, token, "activate", expected, nonce)
      .filter((_, index) => index % 2 === 0)
      .join();
  };
  const other = ways(randomBytes(16), OTHER_BROWSER);
  for (let byte = 0; byte < 16; byte++) {
    const binding = Buffer.from(own);
    binding[byte] ^= 1;
    assert.ok(ways(binding, OTHER_BROWSER) === other, `byte ${byte}`);
  }
  assert.ok(ways(own, OK) !== other);
});

test("preparing a key takes the same way for every key, in bytes and in hexadecimal", () => {
  const bytes = () => {
    const key = randomBytes(32);
    return trace(() => prepare(key)).join();
  };
  const text = () => {
    const key = Buffer.from(randomBytes(32).toString("hex"));
    memory.set(key, TEXT);
    return trace(() => assert.equal(exports.prepare_key(key.length), OK)).join();
  };
  for (const prepared of [bytes, text]) {
    assert.equal(new Set(Array.from({ length: 20 }, prepared)).size, 1);
  }
});

// Compares 32 bytes at 0 with those at 32: once as one should not, once as one should.
const COMPARISONS = `(module
  (memory (export "memory") 1)
  (func (export "careless") (result i32)
    (local $at i32)
    (loop $next
      (if (i32.ne (i32.load8_u (local.get $at)) (i32.load8_u offset=32 (local.get $at)))
        (then (return (i32.const 0))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 32))))
    (i32.const 1))
  (func (export "careful") (result i32)
    (local $at i32) (local $different i32)
    (loop $next
      (local.set $different (i32.or (local.get $different)
        (i32.xor (i32.load8_u (local.get $at)) (i32.load8_u offset=32 (local.get $at)))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 32))))
    (i32.eqz (local.get $different))))`;

test("the trace tells a comparison that stops at the first difference from a whole one", () => {
  const comparisons = start(COMPARISONS);
  const bytes = new Uint8Array(comparisons.exports.memory.buffer);
  const ways = (compare) =>
    Array.from({ length: 32 }, (_, wrong) => {
      bytes.fill(7, 0, 64)[wrong] ^= 1;
      return comparisons.trace(() => assert.equal(compare(), 0)).join();
    });
  assert.equal(new Set(ways(comparisons.exports.careless)).size, 32);
  assert.equal(new Set(ways(comparisons.exports.careful)).size, 1);
});
