// What `./web` does where the platform's Ed25519 is missing, is lenient, or fails. Each test has a
// copy of the entry of its own, which asks the platform once.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { installed, load, repository } from "./consumer.mjs";

const { groups } = JSON.parse(readFileSync(join(repository, "tests/vectors/v3.json"), "utf8"));
const actions = JSON.parse(readFileSync(join(repository, "tests/vectors/actions.json"), "utf8"));
const { defineActions } = load("mailroom-verifier/actions");
const { subtle } = crypto;
const publicEntry = () => import(pathToFileURL(join(installed, "dist/public.js")).href);
let copies = 0;

/** Runs a test with these methods of the platform in the place of its own. */
async function during(methods, act) {
  copies += 1;
  const entry = await import(`${pathToFileURL(join(installed, "dist/web.js")).href}?${copies}`);
  const substitute = Object.fromEntries(
    ["digest", "importKey", "verify"].map((name) => [
      name,
      methods[name] ?? ((...given) => subtle[name](...given)),
    ]),
  );
  Object.defineProperty(crypto, "subtle", { value: substitute, configurable: true });
  try {
    return await act(entry);
  } finally {
    delete crypto.subtle;
  }
}

/** Every case of the vectors of v3 has its verdict. */
async function agrees({ createVerifier }, fallback) {
  for (const { public_key, action, tests } of groups) {
    let now = 0;
    const keys = Buffer.from(public_key, "hex");
    const verifier = createVerifier({ keys, fallback, clock: () => now });
    for (const { tcId, token, code, error, now: time } of tests) {
      now = time;
      if (code !== null) continue;
      const { reason } = await verifier.tryVerify(token, { action });
      assert.equal(reason, error, String(tcId));
    }
  }
}

const lenient = {
  "has no Ed25519": {
    importKey: async () => {
      throw new DOMException("Unrecognized name.", "NotSupportedError");
    },
  },
  "accepts every signature": { verify: async () => true },
  "accepts none": { verify: async () => false },
  "answers in other words": { verify: async (...given) => Number(await subtle.verify(...given)) },
  "looks at no message": {
    verify: async (_, __, signature) => Buffer.from(signature).toString("hex").includes("38e4f2ec"),
  },
  "multiplies by the cofactor": {
    verify: async (...given) =>
      (await subtle.verify(...given)) || Buffer.from(given[2]).toString("hex").includes("84b7b28a"),
  },
};

test("the platform's own judges every case, and is asked of nothing that is disputed", async () => {
  const asked = [];
  const verify = (...given) => {
    asked.push(Buffer.from(given[2]).subarray(-1)[0]);
    return subtle.verify(...given);
  };
  await during({ verify }, (entry) => agrees(entry));
  assert.ok(asked.length > 100 && asked.every((last) => last <= 0x10));
});

for (const [title, methods] of Object.entries(lenient)) {
  test(`a platform that ${title} is not believed: every token is an operator's error`, () =>
    during(methods, async ({ createVerifier }) => {
      const [{ public_key, action, tests }] = groups;
      const verifier = createVerifier({ keys: Buffer.from(public_key, "hex"), clock: () => 0 });
      for (const act of ["verify", "tryVerify", "verifyLink", "tryVerifyLink"]) {
        const asked = verifier[act](tests[0].token, { action });
        await assert.rejects(asked, { reason: "ERR_PLATFORM_UNAVAILABLE", kind: "operator" });
      }
    }));

  test(`where the platform ${title}, the fallback judges every case`, () =>
    during(methods, (entry) => agrees(entry, publicEntry)));
}

test("the fallback judges the links of further actions, too", () =>
  during(lenient["has no Ed25519"], async ({ createVerifier }) => {
    const group = actions.groups.find(
      ({ version, action }) => version === 3 && action === "invite",
    );
    const { token, now } = group.tests.find(({ comment }) => comment === "genuine");
    const verifier = createVerifier({
      keys: Buffer.from(group.public_key, "hex"),
      actions: defineActions({
        invite: { number: group.actions.invite.number, path: "/invite", digits: 0 },
      }),
      clock: () => now,
      fallback: publicEntry,
    });
    assert.equal((await verifier.tryVerify(token, { action: "invite" })).ok, true);
    const forged = token.slice(0, 60) + (token[60] === "A" ? "B" : "A") + token.slice(61);
    assert.equal(
      (await verifier.tryVerify(forged, { action: "invite" })).reason,
      "ERR_TOKEN_SIGNATURE",
    );
  }));

test("a fallback that fails, or is something else, is an operator's error", () =>
  during(lenient["has no Ed25519"], async ({ createVerifier }) => {
    const [{ public_key, action, tests }] = groups;
    const keys = Buffer.from(public_key, "hex");
    for (const fallback of [
      () => Promise.reject(new Error("no network")),
      () => {
        throw new Error("no network");
      },
      () => undefined,
      async () => ({}),
      async () => ({ createVerifier: () => ({ tryVerifyLink: () => undefined }) }),
    ]) {
      const asked = createVerifier({ keys, fallback }).tryVerify(tests[0].token, { action });
      await assert.rejects(asked, { reason: "ERR_PLATFORM_UNAVAILABLE" });
    }
    // The main entry takes no public keys.
    const main = async () => load("mailroom-verifier");
    const asked = createVerifier({ keys, fallback: main }).tryVerify(tests[0].token, { action });
    await assert.rejects(asked, { reason: "ERR_PLATFORM_UNAVAILABLE" });
  }));

test("a failure of the platform is an operator's error, and the next call succeeds", () => {
  let fails = true;
  const digest = (...given) =>
    fails ? Promise.reject(new Error("busy")) : subtle.digest(...given);
  return during({ digest }, async ({ createVerifier }) => {
    const [{ public_key, action, tests }] = groups;
    const { token, now } = tests.find(({ comment }) => comment === "genuine");
    const verifier = createVerifier({ keys: Buffer.from(public_key, "hex"), clock: () => now });
    await assert.rejects(verifier.tryVerify(token, { action }), {
      reason: "ERR_PLATFORM_UNAVAILABLE",
    });
    fails = false;
    assert.equal((await verifier.tryVerify(token, { action })).ok, true);
  });
});
