// `./web`, which judges on the platform's cryptography: every case of the shared vectors, the
// signatures that implementations judge differently, and as many random tokens as it is told, with
// the verdicts of the modules.

import { disputedCases } from "./curve.mjs";
import { differential } from "./differential.mjs";
import { holds, rejection, refusal, same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { optionOf } from "./further.mjs";
import { outcome } from "./outcome.mjs";
import { bytes, hex } from "./tokens.mjs";
import vectorsOfActions from "./actions.mjs";
import vectorsOfBound from "./bound.mjs";
import vectors1 from "./v1.mjs";
import vectors2 from "./v2.mjs";
import vectors3 from "./v3.mjs";

const VECTORS = { vectors1, vectors2, vectors3, vectorsOfActions, vectorsOfBound };
const SEED = 20_261_126;

/**
 * @param {object} loaded
 * @param {object} loaded.webEntry the namespace of `./web`
 * @param {object} loaded.errors the namespace of `./errors`
 * @param {object} [loaded.verifierPackage] the namespace of the main entry, and
 * @param {object} [loaded.publicEntry] of `./public`; without both nothing is compared with them
 * @param {number} loaded.count how many random tokens are judged
 * @param {boolean} loaded.inWindow whether this is a page, or a worker of one
 * @returns {Promise<{ name: string, error?: string }[]>}
 */
export async function runWeb({ count, ...loaded }) {
  const options = loaded.inWindow ? { dangerouslyAllowSecretInBrowser: true } : {};
  const subject = { ...loaded, options };
  const results = [];
  const add = async (name, test) => results.push(await outcome(`web: ${name}`, test));
  for (const [name, { groups }] of Object.entries(VECTORS)) {
    for (const group of groups) {
      for (const test of group.tests) {
        await add(`${name} ${test.tcId} ${group.action}: ${test.comment}`, () =>
          judgedRightly(subject, group, test),
        );
      }
    }
  }
  for (const one of await disputedCases())
    await add(`a signature: ${one.name}`, () => disputed(subject, one));
  await add("arguments are read and refused as the other entries do", () => hostile(subject));
  await add("a shared key is refused in a page", () => secret(subject));
  if (loaded.verifierPackage) {
    await add(`${count} random tokens have the verdicts of the modules`, () =>
      differential(subject, count, SEED),
    );
  }
  return results;
}

function verifierOf({ webEntry, options }, group, now) {
  const given = { clock: () => now, ...(group.actions && { actions: optionOf(group) }) };
  return group.public_key === undefined
    ? webEntry.createSharedVerifier({ keys: group.key, ...given, ...options })
    : webEntry.createVerifier({ keys: text(group.public_key), ...given });
}

async function judgedRightly(subject, group, test) {
  const { action, version } = group;
  const { token, code, nonce, result, error, now = 1_800_000_000 } = test;
  const verifier = verifierOf(subject, group, now);
  const visitor = nonce === undefined ? {} : { nonce };
  const expected = { action, ...visitor };
  const hasCode = code !== null;
  // A public key judges no code, but that none is signed.
  const asked = hasCode ? { ...expected, code } : expected;
  const link = await verifier.tryVerifyLink(token, expected);
  let answer;
  if (!hasCode) answer = await verifier.tryVerify(token, expected);
  else if (version === 3) answer = link.ok ? await link.link.tryWithUncountedCode(code) : link;
  else answer = await verifier.tryVerifyWithUncountedCode(token, asked);
  if (result === "valid") {
    same(answer.ok, true, "tryVerify");
    const proven = [answer.token];
    if (version !== 1) proven.push(link.link, await link.link.withUncountedCode(code ?? undefined));
    for (const one of proven) {
      same(one.version, version, "version");
      same(one.action, action, "action");
      same(hex(one.secret), test.secret, "secret");
      same(hex(one.consumedId), test.id, "consumedId");
      same(one.expiresAt, test.expires_at, "expiresAt");
    }
    same(answer.token.codeIsProven, version !== 3 && hasCode, "codeIsProven");
  } else {
    same(answer.reason, error, "reason");
    same(answer.kind, "visitor", "kind");
    const verify = () => {
      if (!hasCode) return verifier.verify(token, expected);
      if (version !== 3) return verifier.verifyWithUncountedCode(token, asked);
      return verifier.verifyLink(token, expected).then((found) => found.withUncountedCode(code));
    };
    await rejection(subject, error, "verify", verify);
    refusal(subject, error, "errorOf", () => {
      throw subject.errors.errorOf(answer);
    });
    holds(!("token" in answer), "a refused token is returned");
  }
}

async function disputed({ webEntry, publicEntry }, { publicKey, token, result }) {
  const verdictOf = async (entry, more) => {
    try {
      const verifier = entry.createVerifier({ keys: publicKey, ...more });
      const { ok, reason } = await verifier.tryVerify(token, { action: "activate" });
      return ok ? "valid" : reason === "ERR_TOKEN_SIGNATURE" ? "invalid" : reason;
    } catch (error) {
      if (error.reason === "ERR_KEY_INVALID") return "key";
      throw error;
    }
  };
  same(await verdictOf(webEntry), result, "verdict");
  if (publicEntry)
    same(await verdictOf(publicEntry, { signatures: "webassembly" }), result, "of the module");
}

async function hostile(subject) {
  const { webEntry, options } = subject;
  const [group] = vectors2.groups;
  const [open] = vectors3.groups;
  const { createVerifier, createSharedVerifier } = webEntry;
  const invalid = "ERR_INVALID_ARGUMENT";
  for (const [reason, make] of [
    ["ERR_KEY_INVALID", () => createVerifier({ keys: group.key })],
    ["ERR_KEY_INVALID", () => createVerifier({ keys: [] })],
    ["ERR_KEY_INVALID", () => createVerifier({ keys: `${text(open.public_key)}=` })],
    ["ERR_KEY_INVALID", () => createVerifier({ keys: ` ${text(open.public_key)}` })],
    ["ERR_KEY_INVALID", () => createSharedVerifier({ keys: text(open.public_key), ...options })],
    ["ERR_KEY_INVALID", () => createSharedVerifier({ keys: group.key.slice(1), ...options })],
    [invalid, () => createVerifier({ keys: text(open.public_key), signatures: "webassembly" })],
    [invalid, () => createVerifier({ keys: text(open.public_key), fallback: "public" })],
    [invalid, () => createVerifier({ keys: text(open.public_key), accept: ["v2"] })],
    [invalid, () => createSharedVerifier({ keys: group.key, fallback: () => {}, ...options })],
    [invalid, () => createVerifier()],
  ]) {
    refusal(subject, reason, String(make), make);
  }
  const verifier = createVerifier({ keys: bytes(open.public_key) });
  for (const expected of [undefined, {}, { action: "invite" }, { action: "activate", code: "1" }])
    await rejection(subject, invalid, "tryVerify", () => verifier.tryVerify("", expected));
  const late = createVerifier({ keys: () => undefined });
  await rejection(subject, "ERR_KEY_INVALID", "keys", () =>
    late.tryVerify("", { action: "activate" }),
  );
}

async function secret({ webEntry, errors, inWindow }) {
  const [{ key }] = vectors2.groups;
  if (inWindow) {
    refusal({ errors }, "ERR_SECRET_IN_BROWSER", "createSharedVerifier", () =>
      webEntry.createSharedVerifier({ keys: key }),
    );
  } else same(typeof webEntry.createSharedVerifier({ keys: key }).tryVerify, "function", "made");
}
