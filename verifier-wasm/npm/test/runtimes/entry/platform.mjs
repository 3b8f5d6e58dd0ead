// The Ed25519 of the platform, where there is none, where it is something else, and where it fails:
// on Node, Deno and Bun. Each instance of the module finds what `process` has at
// that time, and keeps it.

import crypto from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { instantiatePublic } from "mailroom-verifier/slim";
import * as errors from "mailroom-verifier/errors";
import { holds, same } from "./suite/expect.mjs";
import { text } from "./suite/formats.mjs";
import { outcome } from "./suite/outcome.mjs";
import { bytes, hex } from "./suite/tokens.mjs";
import vectors from "./suite/v3.mjs";

const { process } = globalThis;
const module = new WebAssembly.Module(
  readFileSync(fileURLToPath(import.meta.resolve("mailroom-verifier/public.wasm"))),
);
const ACTIVATE = { action: "activate" };
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const NOW = 1_800_000_000;
/** So many tokens are judged before the platform is looked for. */
const WAIT = 256;
/** Whether the argument asks for every case where what judges is the module all the same. */
const IS_WHOLE = process.argv[2] === "whole";

/**
 * The entry on an instance of its own, and what it finds where the modules
 * of Node come from `given`.
 */
function entryWith(given) {
  return entryIn(Object.create(process, { getBuiltinModule: { value: given } }));
}

/** The same where this is the process. */
function entryIn(substitute) {
  const entry = instantiatePublic(module);
  return during(substitute, () => ({
    ...entry,
    found: entry.createVerifier({ keys: KEYS[0].publicKey }).signatures,
  }));
}

function during(substitute, act) {
  globalThis.process = substitute;
  try {
    return act();
  } finally {
    globalThis.process = process;
  }
}

/** The key of a seed that begins with this number. */
function keyOf(number) {
  const seed = Buffer.alloc(32);
  seed.writeUInt32BE(number);
  const encoded = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]);
  const privateKey = crypto.createPrivateKey({ key: encoded, format: "der", type: "pkcs8" });
  const spki = crypto.createPublicKey(privateKey).export({ format: "der", type: "spki" });
  const publicKey = new Uint8Array(spki.subarray(-32));
  const id = crypto
    .createHash("sha256")
    .update("mailroom/v3 key id\0")
    .update(publicKey)
    .digest()
    .subarray(0, 4);
  const scalar = crypto.createHash("sha512").update(seed).digest().subarray(0, 32);
  scalar[0] &= 0xf8;
  scalar[31] = (scalar[31] & 0x7f) | 0x40;
  return { privateKey, publicKey, id, scalar: integer(scalar) };
}

/** What is signed of an activation, in the token and as the message. */
function activationOf({ id }, fill = 7) {
  const signed = Buffer.alloc(46, fill);
  signed.set([3, 1, ...id]);
  signed.writeBigUInt64BE(BigInt(NOW + 900), 6);
  return { signed, message: Buffer.concat([Buffer.from("mailroom/v3 link\0"), signed]) };
}

function tokenOf(key, fill) {
  const { signed, message } = activationOf(key, fill);
  return withSignature(signed, crypto.sign(null, message, key.privateKey));
}

function withSignature(signed, signature) {
  return Buffer.concat([signed, signature]).toString("base64url");
}

function integer(littleEndian) {
  return BigInt(`0x${hex(Uint8Array.from(littleEndian).reverse())}`);
}

function littleEndian(number) {
  return bytes(number.toString(16).padStart(64, "0")).reverse();
}

// The first two have the same id.
const KEYS = [44_663, 128_211, 3].map(keyOf);
const TOKEN = tokenOf(KEYS[0]);
const FORGED = withSignature(
  activationOf(KEYS[0]).signed,
  crypto.sign(null, Buffer.from("another"), KEYS[0].privateKey),
);

/** Every case of the vectors, or of one group, has its verdict. */
function agrees({ createVerifier }, groups = vectors.groups) {
  for (const group of groups) {
    let now = 0;
    const verifier = createVerifier({ keys: bytes(group.public_key), clock: () => now });
    const other = createVerifier({
      keys: text(group.public_key),
      clock: () => now,
      signatures: "webassembly",
    });
    same(other.signatures, "webassembly", "the option");
    for (const { token, now: time, tcId } of group.tests) {
      now = time;
      const [verdict, expected] = [verifier, other].map((one) =>
        one.tryVerifyLink(token, { action: group.action }),
      );
      same(verdict.reason, expected.reason, `reason of ${tcId}`);
      if (expected.ok) {
        same(verdict.link.expiresAt, expected.link.expiresAt, `expiry of ${tcId}`);
        same(hex(verdict.link.secret), hex(expected.link.secret), `secret of ${tcId}`);
      }
    }
  }
  const verifier = createVerifier({ keys: KEYS[0].publicKey, clock: () => NOW });
  same(verifier.tryVerify(TOKEN, ACTIVATE).ok, true, "a genuine token");
  same(verifier.tryVerify(FORGED, ACTIVATE).reason, "ERR_TOKEN_SIGNATURE", "a forged one");
}

const thrown = () => {
  throw new Error("not here");
};

/** What is not believed: what `getBuiltinModule` is, by what is wrong with it. */
const substitutes = {
  "no such function": undefined,
  "one that throws": thrown,
  "one that knows no module": () => undefined,
  "one that gives null": () => null,
  "an empty module": () => ({}),
  "a module without createPublicKey": () => ({ verify: crypto.verify }),
  "a module without verify": () => ({ createPublicKey: crypto.createPublicKey }),
  "a module whose properties throw": () => new Proxy({}, { get: thrown }),
  "keys that cannot be made": () => ({ ...crypto, createPublicKey: thrown }),
  "another module": () => Math,
};
/** The same for what `verify` of a module does. */
const verifiers = {
  "accepts everything": () => true,
  "accepts nothing": () => false,
  "returns nothing": () => undefined,
  "answers later": (...given) => Promise.resolve(crypto.verify(...given)),
  "answers in words": (...given) => String(crypto.verify(...given)),
  "answers in numbers": (...given) => Number(crypto.verify(...given)),
  throws: thrown,
  "looks at no message": (_, __, ___, signature) => signature[0] === 0x2b && signature[32] === 0x38,
  "looks at R alone": (_, message, __, signature) => signature[0] === 0x2b && message[0] === 0x9d,
  "multiplies by the cofactor": (algorithm, message, key, signature) =>
    crypto.verify(algorithm, message, key, signature) ||
    (message[0] === 0x2b && signature[32] === 0x84),
  "refuses what has a part of small order": (algorithm, message, key, signature) =>
    signature[0] !== 0x2b && crypto.verify(algorithm, message, key, signature),
};

const tests = {
  "the platform's own is used, and every case agrees": () => {
    const entry = entryWith(process.getBuiltinModule);
    same(entry.found, "platform", "signatures");
    agrees(entry);
  },

  "no process at all": () => {
    for (const value of [undefined, null, {}, 1, new Proxy({}, { get: thrown })]) {
      judgedByModule(entryIn(value));
    }
    agrees(entryIn(undefined));
  },

  "only a token that the module would ask for is shown to it, and only once": () => {
    const asked = [];
    const verify = (algorithm, message, key, signature) => {
      asked.push([hex(message), hex(signature)]);
      return crypto.verify(algorithm, message, key, signature);
    };
    const { createVerifier } = entryWith(() => ({ ...crypto, verify }));
    const verifier = createVerifier({
      keys: [KEYS[2].publicKey, KEYS[0].publicKey],
      clock: () => NOW,
    });
    asked.length = 0;
    same(verifier.tryVerify(TOKEN, ACTIVATE).ok, true, "a genuine token");
    const [[message, signature]] = asked;
    same(message, hex(activationOf(KEYS[0]).message), "message");
    same(signature, hex(Buffer.from(TOKEN, "base64url").subarray(-64)), "signature");
    const bare = createVerifier({
      keys: KEYS[0].publicKey,
      clock: () => NOW,
      signatures: "webassembly",
    });
    same(bare.tryVerify(TOKEN, ACTIVATE).ok, true, "by the module");
    same(
      verifier.tryVerify(tokenOf(KEYS[1]), ACTIVATE).ok,
      false,
      "of another key with the id of one",
    );
    same(verifier.tryVerify(`${TOKEN}A`, ACTIVATE).reason, "ERR_TOKEN_MALFORMED", "a long one");
    same(asked.length, 2, "calls");

    // Any other message would be refused, and the module would accept the link all the same.
    const [key] = KEYS;
    const signed = Buffer.alloc(62, 7);
    signed.set([3, 0x81, ...key.id]);
    signed.writeBigUInt64BE(BigInt(NOW + 900), 6);
    const bound = Buffer.concat([Buffer.from("mailroom/v3 link\0"), signed]);
    const link = withSignature(signed, crypto.sign(null, bound, key.privateKey));
    same(verifier.tryVerifyLink(link, ACTIVATE).link.browser, "other", "browser of a bound link");
    same(asked[2][0], hex(bound), "message of a bound link");
  },

  "of two keys with the same id each verifies what it signed": () => {
    const { createVerifier } = entryWith(process.getBuiltinModule);
    const clock = () => NOW;
    for (const [one, other] of [KEYS, KEYS.slice(0, 2).reverse()]) {
      const both = createVerifier({ keys: [one.publicKey, other.publicKey], clock });
      const alone = createVerifier({ keys: one.publicKey, clock });
      for (const key of [one, other])
        same(both.tryVerify(tokenOf(key), ACTIVATE).ok, true, "by both");
      same(alone.tryVerify(tokenOf(one), ACTIVATE).ok, true, "by itself");
      same(
        alone.tryVerify(tokenOf(other), ACTIVATE).reason,
        "ERR_TOKEN_SIGNATURE",
        "by the other one",
      );
    }
  },

  "an S that is not reduced, and an R of small order whose equation holds, are never shown to it":
    () => {
      let asked = 0;
      const verify = (...given) => {
        asked += 1;
        return trusting ? true : crypto.verify(...given);
      };
      let trusting = false;
      const { createVerifier, found } = entryWith(() => ({ ...crypto, verify }));
      same(found, "platform", "signatures");
      trusting = true;
      asked = 0;
      const [key] = KEYS;
      const verifier = createVerifier({ keys: key.publicKey, clock: () => NOW });
      const refused = (signed, signature, what) =>
        same(
          verifier.tryVerify(withSignature(signed, signature), ACTIVATE).reason,
          "ERR_TOKEN_SIGNATURE",
          what,
        );

      const { signed, message } = activationOf(key);
      const genuine = crypto.sign(null, message, key.privateKey);
      for (let times = 1n; times < 15n; times += 1n) {
        const s = littleEndian(integer(genuine.subarray(32)) + times * ORDER);
        refused(
          signed,
          Buffer.concat([genuine.subarray(0, 32), s]),
          `S and ${times} times the order`,
        );
      }
      const p = 2n ** 255n - 19n;
      const order8 = integer(
        bytes("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
      );
      for (const y of [0n, 1n, p - 1n, p, p + 1n, order8, p - order8]) {
        for (const sign of [0, 0x80]) {
          const r = littleEndian(y);
          r[31] |= sign;
          const digest = crypto
            .createHash("sha512")
            .update(r)
            .update(key.publicKey)
            .update(message)
            .digest();
          const s = littleEndian((integer(digest) * key.scalar) % ORDER);
          refused(signed, Buffer.concat([r, s]), `R of ${hex(r)}`);
        }
      }
      same(asked, 0, "calls");
      same(verifier.tryVerify(FORGED, ACTIVATE).ok, true, "what a platform is believed");
    },

  "what it refuses is refused, and what it cannot judge any more the module judges": () => {
    let now = crypto.verify;
    const { createVerifier, found } = entryWith(() => ({
      ...crypto,
      verify: (...given) => now(...given),
    }));
    same(found, "platform", "signatures");
    const verifier = createVerifier({ keys: KEYS[0].publicKey, clock: () => NOW });
    for (const later of [
      thrown,
      () => undefined,
      () => 0,
      () => 1,
      () => "true",
      () => Promise.resolve(true),
      () => ({}),
    ]) {
      now = later;
      same(verifier.tryVerify(TOKEN, ACTIVATE).ok, true, "a genuine token");
      same(verifier.tryVerify(FORGED, ACTIVATE).reason, "ERR_TOKEN_SIGNATURE", "a forged one");
    }
    // The module would accept it, if it were asked: that forged links cost one verification, and
    // not two, is what this shows.
    now = () => false;
    same(verifier.tryVerify(TOKEN, ACTIVATE).reason, "ERR_TOKEN_SIGNATURE", "a refused one");
  },

  "what is put into the place of its functions later is not called": () => {
    const module = { ...crypto };
    const entry = entryWith(() => module);
    module.verify = () => true;
    module.createPublicKey = thrown;
    agrees(entry);
  },

  "a token that is judged while it is asked about another one changes nothing": () => {
    let within = () => {};
    const verify = (...given) => {
      within();
      return crypto.verify(...given);
    };
    const { createVerifier } = entryWith(() => ({ ...crypto, verify }));
    const clock = () => NOW;
    const [first, second] = KEYS.map(({ publicKey }) => createVerifier({ keys: publicKey, clock }));
    for (const token of [TOKEN, tokenOf(KEYS[1]), FORGED, "", "A".repeat(147)]) {
      for (const verifier of [first, second]) {
        within = () => {
          within = () => {};
          same(
            verifier.tryVerify(token, { ...ACTIVATE, nonce: "A".repeat(43) }).ok !== undefined,
            true,
            "within",
          );
          same(
            second.tryVerify(tokenOf(KEYS[1], 9), ACTIVATE).ok,
            true,
            "a genuine one of another key within",
          );
        };
        const expired = createVerifier({ keys: KEYS[0].publicKey, clock: () => NOW + 900 });
        same(first.tryVerify(FORGED, ACTIVATE).reason, "ERR_TOKEN_SIGNATURE", "a forged one");
        const { link } = first.tryVerifyLink(TOKEN, ACTIVATE);
        same(hex(link.secret), "07".repeat(32), "the secret");
        same(hex(link.consumedId).length, 32, "the id");
        same(
          first.tryVerify(tokenOf(KEYS[1]), ACTIVATE).reason,
          "ERR_TOKEN_SIGNATURE",
          "of another key",
        );
        same(expired.tryVerify(TOKEN, ACTIVATE).reason, "ERR_TOKEN_EXPIRED", "an expired one");
      }
    }
  },

  "it is looked for once it is worthwhile, or when somebody asks": () => {
    let looked = 0;
    const given = () => {
      looked += 1;
      return crypto;
    };
    during(Object.create(process, { getBuiltinModule: { value: given } }), () => {
      const { createVerifier } = instantiatePublic(module);
      const verifier = createVerifier({ keys: KEYS[0].publicKey, clock: () => NOW });
      for (let time = 0; time < WAIT; time += 1) verifier.verify(TOKEN, ACTIVATE);
      same(looked, 0, "before");
      for (let time = 0; time < 3; time += 1) verifier.verify(TOKEN, ACTIVATE);
      same(looked, 1, "after");
      same(verifier.signatures, "platform", "signatures");
      same(
        createVerifier({ keys: KEYS[1].publicKey }).signatures,
        "platform",
        "signatures of another verifier",
      );
      same(looked, 1, "for all verifiers");

      const other = instantiatePublic(module).createVerifier({ keys: KEYS[0].publicKey });
      same(other.signatures, "platform", "signatures, asked for");
      same(looked, 2, "for another instance");
    });
  },

  "the option takes nothing but the name of the module": () => {
    const { createVerifier } = entryWith(process.getBuiltinModule);
    for (const signatures of [
      "platform",
      "",
      null,
      false,
      true,
      1,
      {},
      ["webassembly"],
      Symbol("webassembly"),
    ]) {
      let error;
      try {
        createVerifier({ keys: KEYS[0].publicKey, signatures });
      } catch (thrown) {
        error = thrown;
      }
      holds(error instanceof errors.InvalidArgumentError, String(signatures));
    }
    same(
      createVerifier({ keys: KEYS[0].publicKey, signatures: undefined }).signatures,
      "platform",
      "undefined",
    );
  },
};

for (const [what, given] of Object.entries(substitutes)) {
  tests[`${what} instead of the modules of Node`] = () => notBelieved(given);
}
for (const [what, verify] of Object.entries(verifiers)) {
  tests[`a platform that ${what}`] = () => notBelieved(() => ({ ...crypto, verify }));
}

function notBelieved(given) {
  judgedByModule(entryWith(given));
}

/** Whatever was not believed, what judges then is the same code: a group of cases shows that. */
function judgedByModule(entry) {
  same(entry.found, "webassembly", "signatures");
  agrees(entry, IS_WHOLE ? vectors.groups : vectors.groups.slice(0, 1));
}

const results = [];
for (const [name, test] of Object.entries(tests))
  results.push(await outcome(`platform: ${name}`, test));
console.log(JSON.stringify(results));
