// Whether the time of a verification in WebAssembly says anything about a tag, by the method of
// dudect (Reparaz, Balasch and Verbauwhede, "Dude, is my code constant time?", 2017):
// `node timing.mjs --tarball=FILE --folder=FOLDER [--json]`. FOLDER is made anew.
//
// One token is verified with two keys in random order: one that made all of its tag but the last
// bit, and one that made nothing of it, so that the first byte is wrong. Both classes have the same
// characters, so nothing but the comparison tells them apart. The times are compared by Welch's
// t-test, all of them and those below several limits, since interruptions only make times longer.
// The last test compares byte by byte, so that one sees what the method finds where there is
// something to find.

import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { PACKAGE } from "../runtimes/consumer.mjs";
import { prepare } from "./command_line.mjs";
import { median } from "./median.mjs";
import { Moments, welch } from "./moments.mjs";

const SAMPLES = 400_000;
/** The first ones choose the limits, while the engine optimises what it runs. */
const WARM_UP = 20_000;
/** Limits below which times are compared, in hundredths of the first times. */
const SHARES = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99];
/** Tokens of one test, in random order as well. */
const TOKENS = 64;
const NOW = 1_800_000_000;
const CODE = "04711";
const NUMBERS = { activate: 1, recover: 2 };
/** What `verifier-wasm/src/status.rs` says of a wrong tag and of a wrong tag of a code. */
const SIGNATURE = 3;
const CODE_MISMATCH = 12;
/** The length of a prepared key. Its last four bytes are its id. */
const KEY_LENGTH = 196;

const { consumer, json } = prepare();
const module = new WebAssembly.Module(
  readFileSync(join(consumer, "node_modules", PACKAGE, "dist/verifier.wasm")),
);
const { exports } = new WebAssembly.Instance(module);
const memory = new Uint8Array(exports.memory.buffer);
const [text, code, key] = [0, 160, 184].map((place) => exports.buffers() + place);
memory.set(Buffer.from(CODE), code);

const v1 = (secretKey, action, secret) => {
  const tag = mac(secretKey, `/${action}`, secret, action === "recover" ? CODE : "");
  return { parts: [secret], tags: [tag], place: 0, status: SIGNATURE };
};
const v2 = (secretKey, action, secret) => {
  const header = Buffer.alloc(14);
  header.set([2, NUMBERS[action], ...derive(secretKey, "mailroom/v2 key id").subarray(0, 4)]);
  header.writeBigUInt64BE(BigInt(NOW + 900), 6);
  const tag = mac(derive(secretKey, "mailroom/v2 link"), header, secret);
  const codeTag = mac(derive(secretKey, "mailroom/v2 code"), header, secret, CODE).subarray(0, 15);
  const tags = action === "recover" ? [tag, codeTag] : [tag];
  return { parts: [header, secret], tags, place: 0, status: SIGNATURE };
};
const codeOfV2 = (...given) => ({ ...v2(...given), place: 1, status: CODE_MISMATCH });

const tests = [
  ["v1 activation, tag", "activate", v1, verify],
  ["v1 recovery, tag", "recover", v1, verify],
  ["v2 activation, tag", "activate", v2, verify],
  ["v2 recovery, tag", "recover", v2, verify],
  ["v2 recovery, code's tag", "recover", codeOfV2, verify],
  ["control: compared byte by byte", "activate", v1, verifyCarelessly],
];

const results = tests.map(([name, ...test]) => ({ name, ...measure(...test) }));
if (json) {
  console.log(JSON.stringify(results));
} else {
  const heads = ["times", "median ns", "difference", "max |t|"].map((word) => word.padStart(12));
  console.log(`${"".padEnd(32)}${heads.join("")}`);
  for (const { name, times, median_ns, difference_ns, t } of results) {
    const numbers = [
      times.toLocaleString("en"),
      median_ns.toFixed(0),
      difference_ns.toFixed(2),
      t.toFixed(1),
    ];
    console.log(`${name.padEnd(32)}${numbers.map((number) => number.padStart(12)).join("")}`);
  }
}

function mac(secretKey, ...parts) {
  const hmac = createHmac("sha256", secretKey);
  for (const part of parts) {
    hmac.update(part);
  }
  return hmac.digest();
}

function derive(secretKey, info) {
  return Buffer.from(hkdfSync("sha256", secretKey, "", info, 32));
}

/** The state of a key as the module prepares it. */
function prepared(secretKey) {
  memory.set(secretKey, text);
  exports.prepare_key(-1);
  return memory.slice(key, key + KEY_LENGTH);
}

/**
 * A token whose tag is wrong in its last bit under one key, and from its first byte on under
 * another of the same id.
 */
function subject(action, format) {
  const right = randomBytes(32);
  const { parts, tags, place, status } = format(right, action, randomBytes(32));
  const genuine = Buffer.from(tags[place]);
  const tag = Buffer.from(genuine);
  tag[tag.length - 1] ^= 1;
  const bytes = Buffer.concat([
    ...parts,
    ...tags.map((other, index) => (index === place ? tag : other)),
  ]);
  const near = prepared(right);
  const far = near.slice();
  // Of the three pairs of states in a key only the one is another's that makes this tag.
  const pair = parts.length === 1 ? 0 : 64 * (place + 1);
  far.set(prepared(randomBytes(32)).subarray(pair, pair + 64), pair);
  const other = Buffer.from(genuine);
  other[0] ^= 0x55;
  const token = Buffer.from(bytes.toString("base64url"));
  return {
    token,
    tag,
    status,
    action: NUMBERS[action],
    classes: [near, far],
    expected: [genuine, other],
  };
}

function verify({ token, action }) {
  return exports.verify(token.length, action, action === 2 ? CODE.length : -1, NOW, 0);
}

/** The same work, and then byte by byte, as a comparison is written by hand. */
function verifyCarelessly(subject, expected) {
  const status = verify(subject);
  for (let at = 0; at < expected.length; at += 1) {
    if (expected[at] !== subject.tag[at]) {
      return status;
    }
  }
  return 0;
}

function measure(action, format, run) {
  const subjects = Array.from({ length: TOKENS }, () => subject(action, format));
  const choices = randomBytes(2 * (WARM_UP + SAMPLES));
  const groups = SHARES.map(() => [new Moments(), new Moments()]);
  const all = [new Moments(), new Moments()];
  const kept = [[], []];
  const first = [];
  let limits;
  for (let sample = 0; sample < WARM_UP + SAMPLES; sample += 1) {
    const chosen = subjects[choices[2 * sample] % TOKENS];
    const which = choices[2 * sample + 1] & 1;
    memory.set(chosen.classes[which], key);
    exports.load_key();
    memory.set(chosen.token, text);
    const expected = chosen.expected[which];
    const started = performance.now();
    const status = run(chosen, expected);
    const nanoseconds = (performance.now() - started) * 1e6;
    if (status !== chosen.status) {
      throw new Error(`a wrong tag gives ${status}, not ${chosen.status}`);
    }
    if (sample < WARM_UP) {
      first.push(nanoseconds);
      continue;
    }
    limits ??= limitsOf(first.slice(WARM_UP / 2));
    all[which].add(nanoseconds);
    if (kept[which].length < 20_000) {
      kept[which].push(nanoseconds);
    }
    groups.forEach((group, index) => {
      if (nanoseconds < limits[index]) {
        group[which].add(nanoseconds);
      }
    });
  }
  const [near, far] = kept.map(median);
  return {
    times: SAMPLES,
    median_ns: near,
    difference_ns: near - far,
    t: Math.max(...[all, ...groups].map(([one, other]) => Math.abs(welch(one, other)))),
  };
}

function limitsOf(times) {
  const sorted = times.toSorted((one, other) => one - other);
  return SHARES.map((share) => sorted[Math.floor(share * sorted.length)]);
}
