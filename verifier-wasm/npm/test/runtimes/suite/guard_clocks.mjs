// For how long the use of a link is remembered, whatever clocks the guards and their store have.

import { rejection, same } from "./expect.mjs";
import { MARGIN, sceneOfGuard } from "./guard_scene.mjs";
import { recordingStore } from "./stores.mjs";

export function* guardClocks(subject) {
  const { createVerifier, createGuard, createMemoryStore, options } = subject;
  const { activation, old, keys, activate, memory, make } = sceneOfGuard(subject);

  yield [
    "a v1 activation is remembered for as long as the caller says",
    async () => {
      const { token, id } = old.activation;
      const expiresAt = activation.now + 900;
      for (const [more, given, until] of [
        [{ v1RememberFor: 3600 }, {}, activation.now + 3600 + MARGIN],
        [{}, { expiresAt }, expiresAt + MARGIN],
        [{ v1RememberFor: 3600 }, { expiresAt }, expiresAt + MARGIN],
      ]) {
        const store = recordingStore();
        const { redeem, tryRedeem } = make(store, more);
        same((await redeem(token, { ...activate, ...given })).version, 1, "version");
        same(store.calls[0].until, until, "time");
        same(store.calls[0].name, id, "id");
        same((await tryRedeem(token, { ...activate, ...given })).reason, "ERR_TOKEN_USED", "again");
      }
      const { redeem } = make(memory());
      for (const wrongTime of [expiresAt * 1000, NaN, -1, Infinity, "1800000900", null, {}]) {
        await rejection(subject, "ERR_INVALID_ARGUMENT", String(wrongTime), () =>
          redeem(token, { ...activate, expiresAt: wrongTime }),
        );
      }
    },
  ];

  yield [
    "guards of different clock tolerances that share a store let a link through once",
    async () => {
      let now = activation.now;
      const tolerant = (clockTolerance) =>
        createVerifier({ keys, clock: () => now, clockTolerance, ...options });
      for (const [first, second] of [
        [0, 900],
        [0, 999],
        [900, 0],
      ]) {
        now = activation.now;
        const store = createMemoryStore({ capacity: 10, clock: () => now });
        const before = createGuard({ verifier: tolerant(first), store });
        const after = createGuard({ verifier: tolerant(second), store });
        same(
          (await before.tryRedeem(activation.token, activate)).ok,
          true,
          `a tolerance of ${first} s`,
        );
        for (const late of [0, 299, 301, 600, second - 1]) {
          now = activation.expiresAt + late;
          const reason = late < second ? "ERR_TOKEN_USED" : "ERR_TOKEN_EXPIRED";
          same(
            (await after.tryRedeem(activation.token, activate)).reason,
            reason,
            `${second} s, ${late} s later`,
          );
        }
      }
    },
  ];

  yield [
    "a store whose clock runs ahead lets nothing through twice",
    async () => {
      let ahead = 0;
      const store = createMemoryStore({ capacity: 10, clock: () => activation.now + ahead });
      const { tryRedeem } = make(store);
      same((await tryRedeem(activation.token, activate)).ok, true, "the first time");
      ahead = activation.expiresAt - activation.now + MARGIN;
      same(
        (await tryRedeem(activation.token, activate)).reason,
        "ERR_TOKEN_EXPIRED",
        "once it is forgotten",
      );
      ahead = 0;
      same(
        (await tryRedeem(activation.token, activate)).reason,
        "ERR_TOKEN_EXPIRED",
        "once the clock is set back",
      );
    },
  ];
}
