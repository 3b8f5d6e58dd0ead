// Whatever is passed where a token, a code, a key or an option belongs gives an error of the
// package, and the instance goes on working afterwards.

import { discreet } from "./errors.mjs";
import { holds, refusal, same } from "./expect.mjs";
import { hostileVerifiers } from "./hostile_keys.mjs";
import { huge, notAscii, notStrings, sameText, thrower } from "./hostile.mjs";
import { altered, hex, pair } from "./tokens.mjs";

const ARGUMENT = "ERR_INVALID_ARGUMENT";

/**
 * After so many calls in a row, each with a little more of the stack than the one before, none
 * comes to its end any more.
 */
const ENOUGH_ROOM = 100;

export function* strictness(subject) {
  const { createVerifier, decodeUnverified, vectors, options, inWindow } = subject;
  const { activation, recovery } = pair(vectors);
  const verifier = createVerifier({ keys: activation.key, ...options });
  const activate = { action: "activate" };
  const recover = { action: "recover", code: recovery.code };

  /** Genuine links are accepted and others are not, whatever was tried before. */
  function stillWorks() {
    same(
      hex(verifier.verify(activation.token, activate).secret),
      activation.secret,
      "an activation",
    );
    same(
      hex(verifier.verifyWithUncountedCode(recovery.token, recover).secret),
      recovery.secret,
      "a recovery",
    );
    const forged = altered(activation.token);
    refusal(subject, "ERR_TOKEN_SIGNATURE", "an altered link", () =>
      verifier.verify(forged, activate),
    );
  }

  /**
   * What is expected of the token is refused with `reason` by every function that takes it, and
   * nothing is left of it.
   */
  function refused(reason, what, token, expected) {
    const { verifyWithUncountedCode: verify, tryVerifyWithUncountedCode: tryVerify } = verifier;
    for (const functions of expected === activate
      ? [verifier, { verify, tryVerify }]
      : [{ verify, tryVerify }]) {
      const error = refusal(subject, reason, `verify, ${what}`, () =>
        functions.verify(token, expected),
      );
      discreet(error, [activation, recovery]);
      if (error.reason === ARGUMENT) {
        refusal(subject, reason, `tryVerify, ${what}`, () => functions.tryVerify(token, expected));
      } else {
        same(functions.tryVerify(token, expected).reason, error.reason, `tryVerify, ${what}`);
      }
    }
    stillWorks();
  }

  for (const [what, value] of notStrings(activation.token)) {
    yield [
      `a token that is ${what}`,
      () => {
        refused("ERR_TOKEN_MALFORMED", "as a token", value, activate);
        refused("ERR_TOKEN_MALFORMED", "as the token of a recovery", value, recover);
        refusal(subject, "ERR_TOKEN_MALFORMED", "decodeUnverified", () => decodeUnverified(value));
      },
    ];
    if (value !== undefined) {
      yield [
        `a code that is ${what}`,
        () =>
          refused("ERR_CODE_MALFORMED", "as a code", recovery.token, {
            action: "recover",
            code: value,
          }),
      ];
    }
    yield [
      `an action that is ${what}`,
      () => refused(ARGUMENT, "as an action", activation.token, { action: value }),
    ];
  }

  for (const [what, text] of notAscii(activation.token)) {
    yield [
      `a token with ${what}`,
      () => {
        refused("ERR_TOKEN_MALFORMED", "as a token", text, activate);
        refusal(subject, "ERR_TOKEN_MALFORMED", "decodeUnverified", () => decodeUnverified(text));
      },
    ];
  }
  for (const [what, text] of notAscii(recovery.code)) {
    yield [
      `a code with ${what}`,
      () =>
        refused("ERR_CODE_MALFORMED", "as a code", recovery.token, {
          action: "recover",
          code: text,
        }),
    ];
  }

  for (const at of [0, 41, 85]) {
    yield [
      `of all 65,536 characters at ${at} of a token only the right one is accepted`,
      () => everyCharacter(verifier, activation.token, at),
    ];
  }
  yield [
    "of all 65,536 characters in a code only the right one is accepted",
    () => {
      for (let unit = 0; unit < 0x10000; unit += 1) {
        const character = String.fromCharCode(unit);
        const code = recovery.code.slice(0, 2) + character + recovery.code.slice(3);
        const answer = verifier.tryVerifyWithUncountedCode(recovery.token, {
          action: "recover",
          code,
        });
        const wrong = /[0-9]/.test(character) ? "ERR_TOKEN_SIGNATURE" : "ERR_CODE_MALFORMED";
        same(answer.reason, code === recovery.code ? undefined : wrong, `character ${unit}`);
      }
    },
  ];

  for (const [what, text] of huge(activation.token)) {
    yield [
      `a token that is ${what}`,
      () => {
        refused("ERR_TOKEN_MALFORMED", "as a token", text, activate);
        refusal(subject, "ERR_TOKEN_MALFORMED", "decodeUnverified", () => decodeUnverified(text));
      },
    ];
    yield [
      `a code that is ${what}`,
      () =>
        refused("ERR_CODE_MALFORMED", "as a code", recovery.token, {
          action: "recover",
          code: text,
        }),
    ];
    yield [
      `an action that is ${what}`,
      () => refused(ARGUMENT, "as an action", activation.token, { action: text }),
    ];
  }

  for (const length of [
    0, 1, 4, 5, 85, 87, 88, 95, 96, 97, 100, 127, 128, 129, 255, 256, 65535, 65536,
  ]) {
    yield [
      `a token of ${length} characters`,
      () =>
        refused(
          "ERR_TOKEN_MALFORMED",
          "as a token",
          activation.token.padEnd(length, "A").slice(0, length),
          activate,
        ),
    ];
    if (length !== 5) {
      yield [
        `a code of ${length} digits`,
        () => {
          const code = recovery.code.padEnd(length, "0").slice(0, length);
          refused("ERR_CODE_MALFORMED", "as a code", recovery.token, { action: "recover", code });
        },
      ];
    }
  }

  for (const [what, token] of sameText(activation.token)) {
    yield [
      `a genuine token that is kept as ${what}`,
      () => same(hex(verifier.verify(token, activate).secret), activation.secret, "secret"),
    ];
  }
  for (const [what, code] of sameText(recovery.code)) {
    yield [
      `a right code that is kept as ${what}`,
      () => {
        const verified = verifier.verifyWithUncountedCode(recovery.token, {
          action: "recover",
          code,
        });
        same(hex(verified.secret), recovery.secret, "secret");
      },
    ];
  }

  for (const action of [
    "",
    "Activate",
    "ACTIVATE",
    "activate ",
    " activate",
    "activate\0",
    "/activate",
    "activation",
    "password_recovery",
    "1",
    "2",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "length",
  ]) {
    yield [
      `the action ${JSON.stringify(action)}`,
      () => refused(ARGUMENT, "as an action", activation.token, { action }),
    ];
  }

  const notOptions = [
    ...notStrings("activate"),
    ["the action alone", "activate"],
    ["an empty string", ""],
  ];
  for (const [what, value] of notOptions) {
    yield [
      `options that are ${what}`,
      () => refused(ARGUMENT, "as options", activation.token, value),
    ];
  }
  yield [
    "no arguments at all",
    () => {
      refusal(subject, ARGUMENT, "verify()", () => verifier.verify());
      refusal(subject, ARGUMENT, "tryVerify()", () => verifier.tryVerify());
      refusal(subject, "ERR_TOKEN_MALFORMED", "decodeUnverified()", () => decodeUnverified());
      refusal(subject, ARGUMENT, "verify(token)", () => verifier.verify(activation.token));
      stillWorks();
    },
  ];
  for (const property of ["action", "code"]) {
    yield [
      `options whose ${property} throws`,
      () => {
        const expected = Object.defineProperty({ ...recover }, property, { get: thrower });
        refused(ARGUMENT, `a throwing ${property}`, recovery.token, expected);
      },
    ];
  }

  yield [
    "options are read once, before anything is written to the module",
    () => {
      let reads = 0;
      const expected = {
        get action() {
          reads += 1;
          // What happens inside a getter must not disturb the verification that reads it.
          verifier.verify(activation.token, activate);
          return reads === 1 ? "recover" : "activate";
        },
        get code() {
          refusal(subject, "ERR_TOKEN_MALFORMED", "in a getter", () =>
            verifier.verify("A".repeat(90), activate),
          );
          return recovery.code;
        },
      };
      const verified = verifier.verifyWithUncountedCode(recovery.token, expected);
      same(verified.action, "recover", "action");
      same(hex(verified.secret), recovery.secret, "secret");
      same(reads, 1, "reads of the action");
    },
  ];

  yield [
    "a result is a copy that later verifications do not change",
    () => {
      const first = verifier.verify(activation.token, activate);
      const second = verifier.verifyWithUncountedCode(recovery.token, recover);
      first.secret.fill(0);
      same(hex(second.secret), recovery.secret, "secret of the second");
      same(
        hex(verifier.verify(activation.token, activate).secret),
        activation.secret,
        "secret of the first, again",
      );
      holds(first.secret.buffer.byteLength <= 64, "the result holds the module's memory");
    },
  ];

  yield [
    "a stack that overflows in the middle of anything leaves everything working",
    () => {
      const asked = [
        () => verifier.verify(activation.token, activate),
        () => verifier.verifyWithUncountedCode(recovery.token, recover).consumedId,
        () => decodeUnverified(activation.token).unverifiedSecret,
        () => createVerifier({ keys: [activation.key, "ab".repeat(32)], ...options }),
      ];
      let overflows = 0;
      let trap;
      // Asks on the way back from the end of the stack, at every level until there is room again.
      let room;
      const dive = (ask) => {
        try {
          dive(ask);
        } catch {
          // The end of the stack for `dive` itself.
        }
        if (room === ENOUGH_ROOM) return;
        try {
          ask();
          room += 1;
        } catch (error) {
          room = 0;
          overflows += 1;
          if (error instanceof WebAssembly.RuntimeError) {
            trap = error;
          }
        }
      };
      const turns = 5;
      for (let turn = 0; turn < turns; turn += 1) {
        for (const ask of asked) {
          room = 0;
          dive(ask);
          same(room, ENOUGH_ROOM, "calls in a row that had room");
        }
      }
      holds(trap === undefined, `a trap in the module: ${trap}`);
      holds(overflows >= turns, `only ${overflows} calls came to the end of the stack`);
      stillWorks();
    },
  ];

  // What cannot take the permission that a window needs is refused for that.
  const allowed = ["ERR_KEY_INVALID", ARGUMENT, ...(inWindow ? ["ERR_SECRET_IN_BROWSER"] : [])];
  for (const [what, argument] of hostileVerifiers(activation.key)) {
    yield [
      `createVerifier with ${what}`,
      () => {
        const given =
          typeof argument === "object" && argument !== null
            ? permitted(argument, options)
            : argument;
        const error = refusal(subject, allowed, what, () => createVerifier(given));
        discreet(error, [activation, recovery]);
        stillWorks();
      },
    ];
  }
}

function everyCharacter(verifier, token, at) {
  for (let unit = 0; unit < 0x10000; unit += 1) {
    const character = String.fromCharCode(unit);
    const text = token.slice(0, at) + character + token.slice(at + 1);
    const { reason } = verifier.tryVerify(text, { action: "activate" });
    // The last character holds four bits that must be zero, so only A, Q, g and w can stand there.
    const spelling = at === 85 ? /[AQgw]/ : /[A-Za-z0-9_-]/;
    const wrong = spelling.test(character) ? "ERR_TOKEN_SIGNATURE" : "ERR_TOKEN_MALFORMED";
    same(reason, text === token ? undefined : wrong, `character ${unit}`);
  }
}

/**
 * The argument of `createVerifier` with the permission that a window needs,
 * unless it is beyond saving.
 */
function permitted(argument, options) {
  try {
    return Object.assign(argument, options);
  } catch {
    return argument;
  }
}
