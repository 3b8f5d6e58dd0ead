// Links that are bound to a browser: every case of their shared vectors, whatever a cookie may
// hold, and a guard that redeems them.

import { holds, refusal, same } from "./expect.mjs";
import { ofActions, optionOf } from "./further.mjs";
import { text } from "./formats.mjs";
import { hex } from "./tokens.mjs";

export function* bound(subject) {
  yield* ofActions(subject, subject.vectorsOfBound);
}

/** The genuine link of an action, another browser's nonce, and what judges it. */
export function scene(
  { createVerifier, publicEntry, vectorsOfBound, options },
  wanted,
  version = 2,
) {
  const group = vectorsOfBound.groups.find(
    (group) => group.version === version && group.action === wanted,
  );
  const find = (wanted) => group.tests.find(({ comment }) => comment === wanted);
  const { token, code, now, nonce } = find("genuine");
  const { nonce: other } = find("another browser's nonce");
  const { token: twin } = find("the unbound twin has the same id");
  const given = { actions: optionOf(group), clock: () => now };
  const verifier =
    version === 3
      ? publicEntry.createVerifier({ keys: text(group.public_key), ...given })
      : createVerifier({ keys: group.key, ...given, ...options });
  return { token, twin, code: code ?? undefined, nonce, other, verifier, action: wanted };
}

/** What is no nonce, whatever gave it. */
export function noNonces(nonce) {
  const throwing = new Proxy([], {
    get() {
      throw new Error("read");
    },
  });
  const last = nonce.length - 1;
  return [
    ["nothing", undefined],
    ["null", null],
    ["no text", ""],
    ["a cookie that came twice", [nonce, nonce]],
    ["a list of one", [nonce]],
    ["both values of a cookie that came twice", `${nonce}, ${nonce}`],
    ["a String object", new String(nonce)],
    ["what becomes one", { toString: () => nonce }],
    ["its bytes", new TextEncoder().encode(nonce)],
    ["a number", -1],
    ["true", true],
    ["a function", () => nonce],
    ["a symbol", Symbol(nonce)],
    ["a proxy that throws", throwing],
    ["a space before it", ` ${nonce}`],
    ["a space behind it", `${nonce} `],
    ["quotes", `"${nonce}"`],
    ["one character short", nonce.slice(1)],
    ["one character long", `${nonce}A`],
    ["padding", `${nonce}=`],
    ["another alphabet", `+${nonce.slice(1)}`],
    ["a NUL", `${nonce.slice(0, last)}\0`],
    ["a character of two bytes", `${nonce.slice(0, last)}\u00fc`],
    ["43 bytes in 42 characters", `${nonce.slice(0, last - 1)}\u00fc`],
    ["half a surrogate", `${nonce.slice(0, last)}\ud800`],
    ["digits of another script", "\u0661".repeat(43)],
    ["a megabyte", nonce[0].repeat(1 << 20)],
    ["its bytes in hexadecimal", hex(new TextEncoder().encode(nonce))],
  ];
}

export function* browsers(subject) {
  const { createGuard, createMemoryStore, bindingOf, decodeUnverified, publicEntry } = subject;
  const { nonce } = scene(subject, "activate");

  for (const [what, value] of noNonces(nonce)) {
    yield [
      `${what} is no nonce, and never an exception`,
      async () => {
        const { token, twin, verifier } = scene(subject, "activate");
        const expected = { action: "activate", nonce: value };
        same(verifier.tryVerify(token, expected).reason, "ERR_TOKEN_OTHER_BROWSER", "tryVerify");
        refusal(subject, "ERR_TOKEN_OTHER_BROWSER", "verify", () =>
          verifier.verify(token, expected),
        );
        same(verifier.verifyLink(token, expected).browser, "other", "browser");
        same(verifier.tryVerify(twin, expected).ok, true, "a link that is not bound");
        if (bindingOf) same(bindingOf(value), undefined, "bindingOf");
        if (createMemoryStore === undefined) return;
        const guard = createGuard({ verifier, store: createMemoryStore({ capacity: 10 }) });
        same(
          (await guard.tryRedeem(token, expected)).reason,
          "ERR_TOKEN_OTHER_BROWSER",
          "tryRedeem",
        );
        same(
          (await guard.tryRedeem(token, { ...expected, nonce })).ok,
          true,
          "tryRedeem in the right browser",
        );
      },
    ];
  }

  yield [
    "the browser of one call is not that of the next",
    () => {
      const { token, nonce, other, verifier, action } = scene(subject, "invite");
      for (let round = 0; round < 3; round++) {
        same(
          verifier.tryVerify(token, { action, nonce }).token?.browser,
          "same",
          "the right browser",
        );
        same(
          verifier.tryVerify(token, { action }).reason,
          "ERR_TOKEN_OTHER_BROWSER",
          "without a nonce",
        );
        same(verifier.tryVerify(token, { action, nonce }).ok, true, "the right browser again");
        same(
          verifier.tryVerify(token, { action, nonce: other }).reason,
          "ERR_TOKEN_OTHER_BROWSER",
          "another",
        );
      }
    },
  ];
  yield [
    "in another browser only a code that is covered proves the person",
    () => {
      const { token, code, other, verifier, action } = scene(subject, "recover");
      const link = verifier.verifyLink(token, { action, nonce: other });
      same(link.browser, "other", "browser");
      const wrong = code === "00000" ? "11111" : "00000";
      same(link.tryWithUncountedCode(wrong).reason, "ERR_CODE_MISMATCH", "a wrong code");
      same(link.tryWithUncountedCode(undefined).reason, "ERR_CODE_REQUIRED", "no code");
      const proven = link.withUncountedCode(code);
      same(proven.browser, "other", "browser of the token");
      same(proven.codeIsProven, true, "codeIsProven");
      const activation = scene(subject, "activate");
      const without = activation.verifier.verifyLink(activation.token, { action: "activate" });
      for (const typed of [undefined, "01234"]) {
        same(
          without.tryWithUncountedCode(typed).reason,
          "ERR_TOKEN_OTHER_BROWSER",
          "a link without a code",
        );
      }
      if (publicEntry === undefined) return;
      const third = scene(subject, "recover", 3);
      const ofThird = third.verifier.verifyLink(third.token, {
        action: "recover",
        nonce: third.other,
      });
      same(ofThird.tryWithUncountedCode("01234").reason, "ERR_TOKEN_OTHER_BROWSER", "v3");
    },
  ];
  yield [
    "the parts of a bound token are shown without proof",
    () => {
      const { token, twin, nonce } = scene(subject, "sign_in");
      const [parts, ofTwin] = [decodeUnverified(token), decodeUnverified(twin)];
      for (const name of ["unverifiedSecret", "unverifiedConsumedId", "unverifiedKeyId"]) {
        same(hex(parts[name]), hex(ofTwin[name]), name);
      }
      same(parts.unverifiedActionNumber, 127, "unverifiedActionNumber");
      same(parts.unverifiedExpiresAt, ofTwin.unverifiedExpiresAt, "unverifiedExpiresAt");
      same(parts.unverifiedSignature.length, 32, "unverifiedSignature");
      same(ofTwin.unverifiedBinding, undefined, "unverifiedBinding of a token that is not bound");
      same(parts.unverifiedBinding.length, 16, "unverifiedBinding");
      if (bindingOf) same(hex(bindingOf(nonce)), hex(parts.unverifiedBinding), "bindingOf");
    },
  ];
  if (bindingOf) {
    yield [
      "bindingOf agrees with the digest of the platform",
      async () => {
        for (const bindingOf of [subject.bindingOf, publicEntry?.bindingOf].filter(Boolean)) {
          for (let round = 0; round < 20; round++) {
            const random = crypto.getRandomValues(new Uint8Array(32));
            const base64 = btoa(String.fromCharCode(...random));
            const nonce = base64.replaceAll("+", "-").replaceAll("/", "_").replace("=", "");
            const named = new TextEncoder().encode(`mailroom/browser\0${nonce}`);
            const digest = hex(await expectedDigest(named));
            same(hex(bindingOf(nonce)), digest.slice(0, 32), "binding");
          }
        }
      },
    ];
  }
  if (createMemoryStore === undefined) return;
  yield [
    "tries in other browsers never lock the one that asked",
    async () => {
      const { token, code, nonce, other, verifier, action } = scene(subject, "recover");
      const guard = createGuard({ verifier, store: createMemoryStore({ capacity: 10 }) });
      const wrong = code === "00000" ? "11111" : "00000";
      for (const visitor of [undefined, other, ""]) {
        for (const typed of [code, wrong, "x", undefined]) {
          for (let tried = 0; tried < 6; tried++) {
            const { reason } = await guard.tryRedeem(token, {
              action,
              code: typed,
              nonce: visitor,
            });
            same(reason, "ERR_TOKEN_OTHER_BROWSER", "tryRedeem");
          }
        }
      }
      for (let tried = 0; tried < 3; tried++) {
        same(
          (await guard.tryRedeem(token, { action, code: wrong, nonce })).reason,
          "ERR_CODE_MISMATCH",
          "wrong",
        );
      }
      const redeemed = await guard.tryRedeem(token, { action, code, nonce });
      same(redeemed.token?.browser, "same", "browser");
      holds(redeemed.token.codeIsProven, "the code was not proven");
      same(
        (await guard.tryRedeem(token, { action, code, nonce })).reason,
        "ERR_TOKEN_USED",
        "second use",
      );
    },
  ];
  yield [
    "a link and its unbound twin are one row to a store",
    async () => {
      const { token, twin, nonce, verifier, action } = scene(subject, "activate");
      const guard = createGuard({ verifier, store: createMemoryStore({ capacity: 10 }) });
      same((await guard.tryRedeem(token, { action, nonce })).ok, true, "the bound one");
      same((await guard.tryRedeem(twin, { action })).reason, "ERR_TOKEN_USED", "its twin");
    },
  ];
}

async function expectedDigest(named) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", named));
}
