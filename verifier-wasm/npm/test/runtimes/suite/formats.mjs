// Every case of the shared vectors of v2 and v3 gives the verdict and the reason that the Rust core
// gives, alone and in a ring of many keys, and whatever checks signatures.

import { refusal, same } from "./expect.mjs";
import { bytes, hex, judging } from "./tokens.mjs";

export function* v2(subject) {
  const { createVerifier, vectors2, options } = subject;
  const others = vectors2.groups.map(({ key }) => key);
  yield* cases(subject, vectors2, ({ key }, clock) => [
    createVerifier({ keys: key, clock, ...options }),
    createVerifier({ keys: [...others, ...manyKeys(), key], accept: ["v2"], clock, ...options }),
  ]);
}

export function* v3(subject) {
  const { publicEntry, vectors3 } = subject;
  if (publicEntry === undefined) {
    return;
  }
  const others = vectors3.groups.map((group) => bytes(group.public_key));
  yield* cases(subject, vectors3, (group, clock) =>
    publicVerifiers(publicEntry, group, { clock }, [...others, text(group.public_key)]),
  );
}

/**
 * Verifiers of a group: of its key alone and of all `keys`, both with the platform where it has
 * Ed25519, and without it.
 */
export function publicVerifiers({ createVerifier }, group, given, keys) {
  const alone = { keys: bytes(group.public_key), ...given };
  const verifier = createVerifier(alone);
  // Now that it is asked for it, it does not wait until it is worthwhile.
  same(["platform", "webassembly"].includes(verifier.signatures), true, "signatures");
  const many = createVerifier({ ...alone, keys, accept: ["v3"] });
  return [verifier, many, createVerifier({ ...alone, signatures: "webassembly" })];
}

/** Every case of vectors, by what makes the verifiers of a group: of its key alone, and others. */
export function* cases(subject, vectors, verifiersOf) {
  for (const group of vectors.groups) {
    const { version, action, tests } = group;
    let now = 0;
    // A ring with a key of another group would accept what that key signed.
    const [verifier, ...others] = verifiersOf(group, () => now);
    for (const test of tests) {
      const { tcId, comment, token, code, nonce, result, error } = test;
      // Cases that say nothing of a browser come without one.
      const visitor = nonce === undefined ? {} : { nonce };
      const expected = { action, ...(code !== null && { code }), ...visitor };
      const link = () => verifier.tryVerifyLink(token, { action, ...visitor });
      yield [
        `${tcId} ${action}: ${comment}`,
        () => {
          now = test.now;
          const { verify, tryVerify } = judging(verifier, expected);
          const ofOthers = others.map((other) =>
            judging(other, expected).tryVerify(token, expected),
          );
          if (result === "valid") {
            for (const verified of [
              verify(token, expected),
              ...ofOthers.map(({ token }) => token),
            ]) {
              proven(verified, version, action, test);
              same(verified.codeIsProven, version === 2 && code !== null, "codeIsProven");
              same(
                verified.browser,
                [126, 146, 168].includes(token.length) ? "same" : "unbound",
                "browser",
              );
            }
            proven(link().link, version, action, test);
            proven(link().link.withUncountedCode(code ?? undefined), version, action, test);
          } else {
            refusal(subject, error, "verify", () => verify(token, expected));
            same(tryVerify(token, expected).reason, error, "reason of tryVerify");
            if (comment !== "another key") {
              for (const { reason } of ofOthers)
                same(reason, error, "reason of tryVerify of another verifier");
            }
            if (error.startsWith("ERR_CODE_")) {
              same(
                link().link.tryWithUncountedCode(code ?? undefined).reason,
                error,
                "reason of tryWithUncountedCode",
              );
              refusal(subject, error, "withUncountedCode", () =>
                link().link.withUncountedCode(code ?? undefined),
              );
            } else if (error === "ERR_TOKEN_OTHER_BROWSER") {
              same(link().link.browser, "other", "browser");
              proven(link().link, version, action, test);
            } else {
              same(link().reason, error, "reason of tryVerifyLink");
              refusal(subject, error, "verifyLink", () =>
                verifier.verifyLink(token, { action, ...visitor }),
              );
            }
          }
        },
      ];
    }
  }
}

function proven(verified, version, action, test) {
  same(verified.version, version, "version");
  same(verified.action, action, "action");
  same(verified.verifiedAt, test.now, "verifiedAt");
  // Cases that are refused do not say what else they are.
  if (test.result !== "valid") return;
  same(verified.expiresAt, test.expires_at, "expiresAt");
  same(hex(verified.secret), test.secret, "secret");
  same(hex(verified.consumedId), test.id, "consumedId");
  const copy = verified.secret;
  copy.fill(0);
  same(hex(verified.secret), test.secret, "secret, after a copy of it was changed");
}

export function manyKeys() {
  return Array.from({ length: 100 }, (_, number) => new Uint8Array(32).fill(number + 1));
}

/** The text form of a public key that is written in hexadecimal. */
export function text(publicKey) {
  const base64 = btoa(String.fromCharCode(...bytes(publicKey)));
  return `mrpk_${base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}
