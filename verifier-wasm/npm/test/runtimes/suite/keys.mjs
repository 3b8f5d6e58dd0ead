// Keys that are read at the first use, and what is said of those that are none.

import { holds, refusal, same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { v2Pair, v3Pair } from "./tokens.mjs";

const INVALID = "ERR_KEY_INVALID";
const ACTIVATE = { action: "activate" };

export function* keys(subject) {
  const { createVerifier, publicEntry, vectors2, vectors3, options } = subject;
  const { activation } = v2Pair(vectors2);
  const clock = () => activation.now;
  const publicKey = text(v3Pair(vectors3).activation.publicKey);

  yield [
    "a function is called at the first use, again after a failure, " +
      "and never once its keys were good",
    () => {
      let calls = 0;
      const given = [undefined, "", activation.key];
      const { tryVerify, verifyLink } = createVerifier({
        keys: () => given[calls++],
        clock,
        ...options,
      });
      same(calls, 0, "calls while the verifier is made");
      refusal(subject, INVALID, "no key", () => tryVerify(activation.token, ACTIVATE));
      refusal(subject, INVALID, "an empty key", () => verifyLink(activation.token, ACTIVATE));
      for (let time = 0; time < 3; time += 1)
        same(tryVerify(activation.token, ACTIVATE).ok, true, "a good key");
      same(calls, 3, "calls");
    },
  ];
  yield [
    "what a function throws is the cause of a typed error",
    () => {
      const cause = new Error("no vault");
      const fail = () => {
        throw cause;
      };
      const verifier = createVerifier({ keys: fail, clock, ...options });
      const error = refusal(subject, INVALID, "thrown", () =>
        verifier.verify(activation.token, ACTIVATE),
      );
      same(error.cause, cause, "the cause");
    },
  ];

  const base64 = btoa(
    String.fromCharCode(...activation.key.match(/../g).map((pair) => Number.parseInt(pair, 16))),
  );
  const shared = [
    ["undefined", undefined, "undefined: set it"],
    ["null", null, "function"],
    ["empty", "", "empty"],
    ["with a line end", `${activation.key}\n`, "trim"],
    ["base64", base64, "base64"],
    ["private", `mrsk_${"A".repeat(43)}`, "private key"],
    ["public", publicKey, "mailroom-verifier/public"],
    ["too long", `${activation.key}00`, "66 characters"],
    ["a number", 48_151, "64 hexadecimal"],
  ];
  for (const [what, key, word] of shared) {
    yield [
      `of a key that is ${what} it is explained what is wrong`,
      () => told(createVerifier, key, word, options),
    ];
  }
  const ofPublic = [
    ["undefined", undefined, "undefined: set it"],
    ["with a line end", `${publicKey}\n`, "trim"],
    ["private", `mrsk_${"A".repeat(43)}`, "private key"],
    ["shared", activation.key, "on a server"],
    ["without its prefix", publicKey.slice(5), "mrpk_"],
  ];
  for (const [what, key, word] of publicEntry === undefined ? [] : ofPublic) {
    yield [
      `of a public key that is ${what}, too`,
      () => told(publicEntry.createVerifier, key, word, {}),
    ];
  }

  function told(create, key, word, more) {
    for (const given of [key, [key]]) {
      const error = refusal(subject, INVALID, word, () => create({ keys: given, ...more }));
      const message = subject.errors.explain(error);
      holds(message.includes(error.message), "it does not say the message");
      holds(message.includes(word), `${message} does not say ${word}`);
      const secret = String(key).replace(/\W/g, "");
      holds(
        secret.length < 12 || !message.includes(secret.slice(8, 20)),
        "the message holds the key",
      );
    }
  }
}
