// Random and mutated tokens, which the platform's cryptography (`./web`) and the modules judge
// alike. The same seed gives the same tokens, but for the signatures.

import { base64url, littleEndian, numberOf, ORDER, SMALL, UNREDUCED, keyIdOf } from "./curve.mjs";
import { holds } from "./expect.mjs";
import { optionOf } from "./further.mjs";
import { bytes, hex } from "./tokens.mjs";
import vectorsOfActions from "./actions.mjs";
import vectorsOfBound from "./bound.mjs";
import vectors1 from "./v1.mjs";
import vectors2 from "./v2.mjs";
import vectors3 from "./v3.mjs";

const TOLD = 4;
/** So many links are signed for a run, beside those of the vectors. */
const SIGNED = 400;
const NOW = 1_800_000_000;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const CHARACTERS = [...ALPHABET, "=", "+", "/", " ", ".", "\0", "é", "€", "😀", "\ud800"];

/** Numbers from 0 to 1 of which each follows from the one before (mulberry32). */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const ascii = (text) => Uint8Array.from(text, (character) => character.charCodeAt(0));
const { subtle } = globalThis.crypto;

async function mac(key, message) {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await subtle.importKey("raw", key, algorithm, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", imported, message));
}

async function derived(key, info, length) {
  const pseudorandom = await mac(new Uint8Array(32), key);
  return (await mac(pseudorandom, ascii(`mailroom/v2 ${info}\x01`))).slice(0, length);
}

/** A link that is signed as it is described, however wrong that is. */
async function signed(
  secretKey,
  seed,
  publicKey,
  { version, action, expiresAt, binding, secret, code },
) {
  if (version === 1) {
    const path = ascii(action === 1 ? "/activate" : "/recover");
    const tag = await mac(secretKey, Uint8Array.of(...path, ...secret, ...ascii(code ?? "")));
    return base64url([...secret, ...tag]);
  }
  const header = new Uint8Array(14);
  header.set([version, binding ? action | 128 : action]);
  header.set(version === 2 ? await derived(secretKey, "key id", 4) : await keyIdOf(publicKey), 2);
  new DataView(header.buffer).setBigUint64(6, BigInt(expiresAt));
  const message = Uint8Array.of(...header, ...(binding ?? []), ...secret);
  if (version === 2) {
    const tag = await mac(await derived(secretKey, "link", 32), message);
    const coded = Uint8Array.of(...message, ...ascii(code ?? ""));
    const codeTag =
      code === undefined ? [] : await mac(await derived(secretKey, "code", 32), coded);
    return base64url([...message, ...tag, ...codeTag.slice(0, 15)]);
  }
  const pkcs8 = Uint8Array.of(...bytes("302e020100300506032b657004220420"), ...seed);
  const key = await subtle.importKey("pkcs8", pkcs8, "Ed25519", false, ["sign"]);
  const covered = Uint8Array.of(...ascii("mailroom/v3 link\0"), ...message);
  return base64url([...message, ...new Uint8Array(await subtle.sign("Ed25519", key, covered))]);
}

/** What is judged: tokens with the codes, nonces and moments that belong to them. */
async function materialOf(one, whole, ring) {
  const material = [];
  const vectors = [vectors1, vectors2, vectors3, vectorsOfActions, vectorsOfBound];
  for (const { groups } of vectors) {
    for (const { action, tests } of groups) {
      for (const { token, code, nonce, now } of tests)
        material.push({ token, action, code: code ?? undefined, nonce, now: now ?? NOW });
    }
  }
  const random = (length) => Uint8Array.from({ length }, () => whole(256));
  for (let made = 0; made < SIGNED; made += 1) {
    const { key, seed, publicKey, further } = one(ring);
    const names = ["activate", "recover", ...Object.keys(further)];
    const name = one(names);
    const version = one([1, 2, 2, 3, 3]);
    const number = further[name]?.number ?? names.indexOf(name) + 1;
    const usual = further[name]?.digits ?? (name === "recover" ? 5 : 0);
    const digits = one([usual, usual, usual, usual, usual, 0, 5, 6, 8]);
    const code = digits > 0 ? String(whole(10 ** digits)).padStart(digits, "0") : undefined;
    const nonce = base64url(random(32));
    const label = ascii(`mailroom/browser\0${nonce}`);
    const binding = one([true, false])
      ? new Uint8Array(await subtle.digest("SHA-256", label)).slice(0, 16)
      : undefined;
    const action = one([number, number, number, number, number, 0, 1, 2, 3, 127, whole(128)]);
    const expiresAt = one([NOW, NOW + 1, NOW + 900, 253_402_300_799, 253_402_300_800, 2 ** 53, 0]);
    const fields = { version, action, expiresAt, binding, secret: random(32), code };
    const token = await signed(key, seed, publicKey, fields);
    material.push({ token, action: name, code, nonce, now: NOW });
  }
  return material;
}

function decoded(token) {
  const text = atob(token.replaceAll("-", "+").replaceAll("_", "/"));
  return ascii(text);
}

/** A token that is like this one, or not at all. */
function mutated(token, one, whole, others) {
  const at = whole(token.length);
  const inBytes = (change) => {
    try {
      const all = decoded(token);
      change(all);
      return base64url(all);
    } catch {
      return token;
    }
  };
  if (one([true, false])) return token;
  const change = one([
    () => token.slice(0, at) + one(CHARACTERS) + token.slice(at + 1),
    () => token.slice(0, -1) + one([...ALPHABET]),
    () => token.slice(0, at) + token.slice(at + 1),
    () => token.slice(0, at) + one(CHARACTERS) + token.slice(at),
    () => token.slice(0, at),
    () => token + one(others).token,
    () => `${token}=`,
    () => inBytes((all) => (all[whole(all.length)] ^= 1 << whole(8))),
    () => inBytes((all) => (all[0] = one([0, 1, 2, 3, 4, 255]))),
    () => inBytes((all) => (all[1] = one([0, 1, 2, 3, 4, 127, 128, 129, 130, whole(256)]))),
    () => inBytes((all) => (all[2 + whole(4)] = whole(256))),
    () => inBytes((all) => (all[6 + whole(8)] = one([0, 1, 58, 59, 255]))),
    () => inBytes((all) => all.set(decoded(one(others).token).slice(0, 46))),
    () => inBytes((all) => all.set(decoded(one(others).token).slice(-64), all.length - 64)),
    () => inBytes((all) => all.set(one([...SMALL, ...UNREDUCED]), all.length - 64)),
    () =>
      inBytes((all) => {
        const s = numberOf(all.slice(-32)) + ORDER;
        if (s < 2n ** 256n) all.set(littleEndian(s), all.length - 32);
      }),
    () => base64url(Uint8Array.from({ length: whole(140) }, () => whole(256))),
    () => Array.from({ length: whole(180) }, () => one(CHARACTERS)).join(""),
    () => one([undefined, null, 1, [token], { toString: () => token }, new String(token)]),
  ]);
  return change();
}

function shownToken(token) {
  const { version, action, expiresAt, verifiedAt, browser, codeIsProven } = token;
  const ids = `${hex(token.secret)} ${hex(token.consumedId)}`;
  return `${version} ${action} ${expiresAt} ${verifiedAt} ${browser} ${codeIsProven} ${ids}`;
}

const shown = (result) => (result.ok ? shownToken(result.token) : result.reason);

async function shownLink(result, code) {
  if (!result.ok) return result.reason;
  const { codeDigits, acceptedUntil } = result.link;
  const withCode = await result.link.tryWithUncountedCode(code);
  return `${shownToken(result.link)} ${codeDigits} ${acceptedUntil}, then ${shown(withCode)}`;
}

/**
 * Compares the verdicts of `./web` and of the modules.
 *
 * @param {object} subject `webEntry`, `verifierPackage`, `publicEntry`, `inWindow`
 */
export async function differential(
  { webEntry, verifierPackage, publicEntry, inWindow },
  count,
  seed,
) {
  const random = generator(seed);
  const whole = (below) => Math.floor(random() * below);
  const one = (list) => list[whole(list.length)];
  const groups = [...vectorsOfActions.groups, ...vectorsOfBound.groups];
  const shared = groups.filter(({ version }) => version === 2);
  const open = groups.filter(({ version }) => version === 3);
  const ring = Array.from({ length: 6 }, (_, place) => {
    const [ofShared, ofOpen] = [shared, open].map((list) => list[place % list.length]);
    const further = optionOf(ofShared);
    return {
      key: bytes(ofShared.key),
      seed: bytes(ofOpen.private_key),
      publicKey: bytes(ofOpen.public_key),
      further,
    };
  });
  const material = await materialOf(one, whole, ring);
  let now = NOW;
  const further = optionOf(shared[0]);
  const hasKey = inWindow ? { dangerouslyAllowSecretInBrowser: true } : {};
  const allShared = [...vectors1.groups, ...vectors2.groups, ...shared].map(({ key }) => key);
  const allOpen = [...vectors3.groups, ...open].map(({ public_key: key }) => bytes(key));
  const settings = [{}, { actions: further }, { actions: further, clockTolerance: 30 }].map(
    (setting) => ({ ...setting, clock: () => now }),
  );
  const namesOf = ({ actions }) => ["activate", "recover", ...Object.keys(actions ?? {})];
  // Rings of all keys once each, of v1 and v2 also with one format alone.
  const distinct = (keys, name) => [...new Map(keys.map((key) => [name(key), key])).values()];
  const sharedKeys = distinct(allShared, String);
  const publicKeys = distinct(allOpen, hex);
  const pairs = settings.flatMap((setting) => [
    ...[["v1", "v2"], ["v1"], ["v2"]].map((accept) => {
      const given = { keys: sharedKeys, accept, ...setting, ...hasKey };
      return {
        ...{
          web: webEntry.createSharedVerifier(given),
          module: verifierPackage.createVerifier(given),
        },
        ...{ isShared: true, names: namesOf(setting) },
      };
    }),
    {
      web: webEntry.createVerifier({ keys: publicKeys, ...setting }),
      module: publicEntry.createVerifier({
        ...{ keys: publicKeys, signatures: "webassembly" },
        ...setting,
      }),
      isShared: false,
      names: namesOf(setting),
    },
  ]);
  const faults = [];
  const reasons = new Map();
  for (let done = 0; done < count && faults.length < TOLD; done += 1) {
    const base = one(material);
    const token = mutated(base.token, one, whole, material);
    const isPlain = random() < 0.6;
    now = isPlain ? base.now : base.now + one([-1, 0, 1, 29, 30, 31, 900, 10 ** 9]);
    const isOpen = /^Aw/.test(base.token) !== random() < 0.05;
    const pair = one(pairs.filter(({ isShared }) => isShared !== isOpen));
    const { web, module, isShared, names } = pair;
    const action = isPlain && names.includes(base.action) ? base.action : one(names);
    const nonce =
      random() < 0.7 ? base.nonce : one([undefined, one(material).nonce, "", "x", [base.nonce]]);
    const code =
      random() < 0.7
        ? base.code
        : one([
            undefined,
            "",
            "12345",
            "123456",
            "1234",
            "１２３４５",
            5,
            null,
            one(material).code,
          ]);
    const calls = [
      [`tryVerify`, { action, nonce }, shown],
      [`tryVerifyLink`, { action, nonce }, (result) => shownLink(result, code)],
      ...(isShared ? [["tryVerifyWithUncountedCode", { action, nonce, code }, shown]] : []),
    ];
    const [name, expected, show] = one(calls);
    const verdicts = await Promise.all(
      [web, module].map(async (verifier) => show(await verifier[name](token, expected))),
    );
    const reason = verdicts[1].startsWith("ERR_") ? verdicts[1] : "ok";
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    if (verdicts[0] !== verdicts[1]) {
      const asked = `${name} of ${String(token)} for ${JSON.stringify(expected)} at ${now}`;
      faults.push(`${done}: ${asked}: ${verdicts.join(" instead of ")}`);
    }
  }
  holds(faults.length === 0, faults.join("\n"));
  // A run that reaches no verdict but one would prove nothing.
  const missing = REASONS.filter((reason) => !reasons.has(reason));
  holds(count < 10_000 || missing.length === 0, `never seen: ${missing}`);
  return reasons;
}

const REASONS = [
  ...["ok", "ERR_TOKEN_MALFORMED", "ERR_TOKEN_SIGNATURE", "ERR_TOKEN_ACTION", "ERR_TOKEN_EXPIRED"],
  ...["ERR_TOKEN_OTHER_BROWSER", "ERR_CODE_UNCHECKABLE", "ERR_CODE_REQUIRED", "ERR_CODE_MALFORMED"],
  ...["ERR_CODE_MISMATCH", "ERR_LINK_UNCHECKABLE"],
];
