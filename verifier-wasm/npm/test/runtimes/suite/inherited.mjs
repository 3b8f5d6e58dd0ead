// What a program, or a stranger through it, has written to the prototype
// of all objects is no option.

import { refusal, same } from "./expect.mjs";
import { recordingStore } from "./stores.mjs";
import { v2Pair } from "./tokens.mjs";

export function* inherited(subject) {
  const { createVerifier, createGuard, createMemoryStore, vectors2, options } = subject;
  const { activation, recovery } = v2Pair(vectors2);
  const clock = () => activation.now;
  const make = () => createVerifier({ keys: activation.key, clock, ...options });

  yield [
    "a number of tries, a time and a clock that all objects inherit are none " +
      "of a guard and a verifier",
    async () => {
      const polluted = {
        ...{ maxCodeAttempts: 100, v1RememberFor: 900, storeTimeout: -1, checkCode: () => true },
        ...{
          clockTolerance: 999,
          accept: ["v1"],
          clock: () => 0,
          code: recovery.code,
          expiresAt: -1,
        },
        ...{ attempt: "no method", release: {}, withdraw: 1, stray: true },
      };
      await whileInherited(polluted, async () => {
        const verifier = make();
        same(verifier.clockTolerance, 0, "clockTolerance");
        same(
          verifier.verify(activation.token, { action: "activate" }).verifiedAt,
          activation.now,
          "the clock",
        );
        const store = recordingStore();
        const { tryRedeem } = createGuard({ verifier, store });
        same(
          (await tryRedeem(recovery.token, { action: "recover" })).reason,
          "ERR_CODE_REQUIRED",
          "the code",
        );
        for (let time = 0; time < 5; time += 1) {
          const wrong = { action: "recover", code: recovery.wrongCode };
          same(
            (await tryRedeem(recovery.token, wrong)).reason,
            "ERR_CODE_MISMATCH",
            `try ${time + 1}`,
          );
        }
        const right = { action: "recover", code: recovery.code };
        same(
          (await tryRedeem(recovery.token, right)).reason,
          "ERR_TOO_MANY_ATTEMPTS",
          "the sixth try",
        );
        const bare = createGuard({ verifier, store: { consume: () => true } });
        same(
          (await bare.tryRedeem(recovery.token, right)).reason,
          "ERR_GUARD_UNSUPPORTED",
          "a store without attempt",
        );
        same(
          (await bare.tryRedeem(activation.token, { action: "activate" })).ok,
          true,
          "without release",
        );
      });
    },
  ];
  yield [
    "an action, keys and a capacity that all objects inherit are none",
    async () => {
      const polluted = {
        action: "activate",
        keys: activation.key,
        capacity: 10,
        store: { consume: () => true },
      };
      await whileInherited(polluted, () => {
        const verifier = make();
        refusal(subject, "ERR_INVALID_ARGUMENT", "the action", () =>
          verifier.verify(activation.token, {}),
        );
        refusal(subject, "ERR_KEY_INVALID", "keys", () => createVerifier({ ...options }));
        refusal(subject, "ERR_INVALID_ARGUMENT", "the store", () => createGuard({ verifier }));
        if (createMemoryStore)
          refusal(subject, "ERR_INVALID_ARGUMENT", "capacity", () => createMemoryStore({}));
      });
    },
  ];
}

/** What an action returns that is run while all objects inherit these properties. */
export async function whileInherited(properties, act) {
  Object.assign(Object.prototype, properties);
  try {
    return await act();
  } finally {
    for (const name of Object.keys(properties)) delete Object.prototype[name];
  }
}
