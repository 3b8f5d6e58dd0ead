// Links that prove their own validity: clocks, tolerances, narrowed verifiers, public keys.

import { notStrings, throwingProxy } from "./hostile.mjs";
import { holds, refusal, same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { bytes, hex, pair, v2Pair, v3Pair } from "./tokens.mjs";

const ARGUMENT = "ERR_INVALID_ARGUMENT";

export function* links(subject) {
  const { createVerifier, decodeUnverified, vectors, vectors2, options } = subject;
  const { activation, recovery } = v2Pair(vectors2);
  const old = pair(vectors);
  const keys = activation.key;
  const activate = { action: "activate" };

  yield [
    "the clock is read at each call, and the tolerance adds to the expiry",
    () => {
      let now = activation.expiresAt - 1;
      const strict = createVerifier({ keys, clock: () => now, ...options });
      const tolerant = createVerifier({
        keys,
        clock: () => now + 0.9,
        clockTolerance: 60,
        ...options,
      });
      same(strict.clockTolerance, 0, "the default tolerance");
      same(tolerant.clockTolerance, 60, "the tolerance");
      same(
        tolerant.verifyLink(activation.token, activate).acceptedUntil,
        activation.expiresAt + 60,
        "acceptedUntil",
      );
      for (const [seconds, ofStrict, ofTolerant] of [
        [-1, true, true],
        [0, false, true],
        [59, false, true],
        [60, false, false],
      ]) {
        now = activation.expiresAt + seconds;
        same(
          strict.tryVerify(activation.token, activate).ok,
          ofStrict,
          `without tolerance after ${seconds} s`,
        );
        same(
          tolerant.tryVerify(activation.token, activate).ok,
          ofTolerant,
          `with tolerance after ${seconds} s`,
        );
        same(
          tolerant.tryVerifyLink(activation.token, activate).ok,
          ofTolerant,
          `as a link after ${seconds} s`,
        );
      }
    },
  ];

  const inMilliseconds = 1_800_000_000_000;
  for (const value of [
    NaN,
    Infinity,
    -1,
    inMilliseconds,
    "1800000000",
    null,
    undefined,
    10n,
    {},
    [],
    true,
  ]) {
    yield [
      `a clock that returns ${String(value)} (${typeof value})`,
      () => {
        const verifier = createVerifier({ keys, clock: () => value, ...options });
        for (const call of [
          () => verifier.verify(activation.token, activate),
          () => verifier.tryVerify(activation.token, activate),
          () => verifier.tryVerifyLink(activation.token, activate),
        ]) {
          refusal(subject, ARGUMENT, "the time", call);
        }
      },
    ];
  }
  yield [
    "a clock that throws",
    () => {
      const cause = new RangeError("no clock");
      const clock = () => {
        throw cause;
      };
      const verifier = createVerifier({ keys, clock, ...options });
      const error = refusal(subject, ARGUMENT, "the clock", () =>
        verifier.verify(activation.token, activate),
      );
      same(error.cause, cause, "cause");
    },
  ];
  for (const value of [NaN, Infinity, -1, 0.5, 1000, 60_000, "60", null, {}, 1n]) {
    yield [
      `a tolerance of ${String(value)} (${typeof value})`,
      () => {
        const given = { keys, clockTolerance: value, ...options };
        // The value null is as good as none.
        if (value === null) return;
        refusal(subject, ARGUMENT, "the tolerance", () => createVerifier(given));
      },
    ];
  }
  for (const value of [0, 1, "clock", {}, null, Symbol("clock")]) {
    yield [
      `a clock that is ${String(value)} (${typeof value})`,
      () =>
        void refusal(subject, ARGUMENT, "the clock", () =>
          createVerifier({ keys, clock: value, ...options }),
        ),
    ];
  }

  yield [
    "a verifier narrowed to one format refuses the others like tokens that nobody signed",
    () => {
      const clock = () => activation.now;
      const first = createVerifier({
        keys: [keys, old.activation.key],
        accept: ["v1"],
        clock,
        ...options,
      });
      const second = createVerifier({
        keys: [keys, old.activation.key],
        accept: ["v2"],
        clock,
        ...options,
      });
      const both = createVerifier({
        keys: [keys, old.activation.key],
        accept: ["v2", "v1"],
        clock,
        ...options,
      });
      for (const [verifier, takesFirst, takesSecond] of [
        [first, true, false],
        [second, false, true],
        [both, true, true],
      ]) {
        const reason = (takes) => (takes ? undefined : "ERR_TOKEN_SIGNATURE");
        same(verifier.tryVerify(old.activation.token, activate).reason, reason(takesFirst), "v1");
        same(verifier.tryVerify(activation.token, activate).reason, reason(takesSecond), "v2");
        same(
          verifier.tryVerifyLink(activation.token, activate).reason,
          reason(takesSecond),
          "v2 as a link",
        );
        const malformed = `${activation.token}=`;
        same(verifier.tryVerify(malformed, activate).reason, "ERR_TOKEN_MALFORMED", "malformed");
      }
      const recover = { action: "recover", code: recovery.wrongCode };
      same(
        first.tryVerifyWithUncountedCode(recovery.token, recover).reason,
        "ERR_TOKEN_SIGNATURE",
        "v2 with a wrong code",
      );
      same(
        second.tryVerifyLink(old.activation.token, activate).reason,
        "ERR_TOKEN_SIGNATURE",
        "v1 as a link",
      );
      same(
        first.tryVerifyLink(old.activation.token, activate).reason,
        "ERR_LINK_UNCHECKABLE",
        "v1 as a link",
      );
    },
  ];
  for (const accept of [
    [],
    ["v3"],
    ["v1", "v3"],
    ["v1", "v2", "v1"],
    "v1",
    {},
    null,
    ["V1"],
    [1],
    throwingProxy([]),
  ]) {
    yield [
      "formats that cannot be accepted",
      () =>
        void refusal(subject, ARGUMENT, "accept", () =>
          createVerifier({ keys, accept, ...options }),
        ),
    ];
  }

  yield [
    "a link of a recovery says nothing about its code until that is typed",
    () => {
      const verifier = createVerifier({ keys, clock: () => recovery.now, ...options });
      const link = verifier.verifyLink(recovery.token, { action: "recover" });
      same(link.codeIsProven, undefined, "codeIsProven");
      same(
        link.tryWithUncountedCode(recovery.wrongCode).reason,
        "ERR_CODE_MISMATCH",
        "a wrong code",
      );
      same(link.tryWithUncountedCode(undefined).reason, "ERR_CODE_REQUIRED", "no code");
      same(link.tryWithUncountedCode("1234").reason, "ERR_CODE_MALFORMED", "a short code");
      same(link.tryWithUncountedCode(recovery.code).token.codeIsProven, true, "the right code");
      same(JSON.stringify(link), "{}", "serialised");
      refusal(subject, ARGUMENT, "a code in the expectation of a link", () =>
        verifier.verifyLink(recovery.token, { action: "recover", code: recovery.code }),
      );
    },
  ];

  yield [
    "a link that has expired when its code comes is refused, and the token says when it was judged",
    () => {
      for (const clockTolerance of [0, 60]) {
        for (const { token, code, action, expiresAt, now } of [activation, recovery]) {
          let time = now;
          const verifier = createVerifier({ keys, clock: () => time, clockTolerance, ...options });
          const link = verifier.verifyLink(token, { action });
          time = expiresAt + clockTolerance - 1;
          same(link.withUncountedCode(code).verifiedAt, time, "verifiedAt");
          same(link.verifiedAt, now, "verifiedAt of the link");
          time += 1;
          same(link.tryWithUncountedCode(code).reason, "ERR_TOKEN_EXPIRED", action);
          refusal(subject, "ERR_TOKEN_EXPIRED", action, () => link.withUncountedCode(code));
          const wrong = code === undefined ? "01234" : undefined;
          same(
            link.tryWithUncountedCode(wrong).reason,
            "ERR_TOKEN_EXPIRED",
            `${action}, with a code that is wrong`,
          );
        }
      }
    },
  ];
  const numbers = [-2, -1, 0, 1, 4, 5, 6, 48_151, 2 ** 31, 2 ** 32 - 2].map((number) => [
    String(number),
    number,
  ]);
  for (const [what, value] of [...numbers, ...notStrings(recovery.code)].filter(
    ([, value]) => value !== undefined,
  )) {
    yield [
      `${what} typed as the code of a link`,
      () => {
        const verifier = createVerifier({ keys, clock: () => recovery.now, ...options });
        const link = verifier.verifyLink(recovery.token, { action: "recover" });
        refusal(subject, "ERR_CODE_MALFORMED", what, () => link.withUncountedCode(value));
        same(link.tryWithUncountedCode(value).reason, "ERR_CODE_MALFORMED", what);
        const of = verifier.verifyLink(activation.token, activate);
        refusal(subject, "ERR_CODE_UNCHECKABLE", what, () => of.withUncountedCode(value));
        same(of.tryWithUncountedCode(value).reason, "ERR_CODE_UNCHECKABLE", what);
        same(link.withUncountedCode(recovery.code).codeIsProven, true, "the right code afterwards");
      },
    ];
  }
  yield [
    "a code given where none is compared is answered by the way that counts the tries",
    () => {
      const verifier = createVerifier({ keys, clock: () => recovery.now, ...options });
      for (const call of [
        verifier.verify,
        verifier.tryVerify,
        verifier.verifyLink,
        verifier.tryVerifyLink,
      ]) {
        const error = refusal(subject, ARGUMENT, "a code", () =>
          call(recovery.token, { action: "recover", code: "01234" }),
        );
        holds(error.message.includes("guard.redeem"), error.message);
      }
    },
  ];

  yield [
    "decodeUnverified shows what a v2 token claims",
    () => {
      const claimed = decodeUnverified(recovery.token);
      same(claimed.verified, false, "verified");
      same(claimed.version, 2, "version");
      same(claimed.unverifiedAction, "recover", "action");
      same(claimed.unverifiedExpiresAt, recovery.expiresAt, "expiry");
      same(hex(claimed.unverifiedSecret), recovery.secret, "secret");
      same(hex(claimed.unverifiedConsumedId), recovery.id, "id");
      same(claimed.unverifiedKeyId.length, 4, "length of the key id");
      same(claimed.unverifiedSignature.length, 32, "length of the tag");
      same(decodeUnverified(old.activation.token).unverifiedExpiresAt, undefined, "expiry of v1");
    },
  ];
}

export function* publicKeys(subject) {
  const { publicEntry, createVerifier, vectors2, vectors3, options } = subject;
  if (publicEntry === undefined) {
    return;
  }
  const { activation, recovery } = v3Pair(vectors3);
  const keys = text(activation.publicKey);
  const clock = () => activation.now;
  const activate = { action: "activate" };

  yield [
    "a public key needs no permission in a browser, and verifies nothing but v3",
    () => {
      const verifier = publicEntry.createVerifier({ keys, clock });
      same(verifier.verifyLink(activation.token, activate).version, 3, "version");
      same(
        verifier.verify(recovery.token, { action: "recover" }).codeIsProven,
        false,
        "codeIsProven",
      );
      const second = v2Pair(vectors2).activation;
      same(
        verifier.tryVerifyLink(second.token, activate).reason,
        "ERR_TOKEN_SIGNATURE",
        "a token of v2",
      );
      const shared = createVerifier({ keys: second.key, clock, ...options });
      same(
        shared.tryVerifyLink(activation.token, activate).reason,
        "ERR_TOKEN_SIGNATURE",
        "with a shared key",
      );
      const claimed = publicEntry.decodeUnverified(activation.token);
      same(claimed.version, 3, "version");
      same(claimed.unverifiedSignature.length, 64, "length of the signature");
    },
  ];
  if (subject.signatures !== undefined) {
    yield [
      `signatures are checked by the ${subject.signatures}, unless the option says otherwise`,
      () => {
        same(
          publicEntry.createVerifier({ keys, clock }).signatures,
          subject.signatures,
          "signatures",
        );
        same(
          publicEntry.createVerifier({ keys, signatures: "webassembly" }).signatures,
          "webassembly",
          "the option",
        );
      },
    ];
  }
  // A point of order 1, one of order 8, the second encoding of a point, no point at all.
  const weak = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0200000000000000000000000000000000000000000000000000000000000000",
  ];
  for (const key of weak) {
    yield [
      `the public key ${key.slice(0, 8)}…`,
      () => {
        for (const form of [bytes(key), text(key)]) {
          refusal(subject, "ERR_KEY_INVALID", "the key", () =>
            publicEntry.createVerifier({ keys: form }),
          );
        }
      },
    ];
  }
  yield [
    "keys of another kind are refused with a word on what to use",
    () => {
      const shared = v2Pair(vectors2).activation.key;
      const hint = refusal(subject, "ERR_KEY_INVALID", "a shared key", () =>
        publicEntry.createVerifier({ keys: shared }),
      );
      holds(!hint.message.includes(shared), "the message shows the key");
      const other = refusal(subject, "ERR_KEY_INVALID", "a public key", () =>
        createVerifier({ keys, ...options }),
      );
      const said = subject.errors.explain(other);
      holds(said.includes("use mailroom-verifier/public"), said);
    },
  ];
  for (const [what, value] of notStrings(keys)) {
    yield [
      `${what} instead of a public key`,
      () => {
        const codes = ["ERR_KEY_INVALID", ARGUMENT];
        // An array of the key is a ring, and a function gives the keys at the first use.
        if (what === "an array of the text" || typeof value === "function") return;
        refusal(subject, codes, what, () => publicEntry.createVerifier({ keys: value, clock }));
      },
    ];
  }
}
