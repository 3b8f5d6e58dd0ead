// A link works once, whoever shares the store and however often it is tried. What is asked of the
// guard here is what verifier-core/tests/guard asks of the core's.

import { refusal, rejection, same } from "./expect.mjs";
import { guardClocks } from "./guard_clocks.mjs";
import { guardCodes } from "./guard_codes.mjs";
import { sceneOfGuard } from "./guard_scene.mjs";
import { guardStore } from "./guard_store.mjs";
import { guardV3 } from "./guard_v3.mjs";
import { recordingStore } from "./stores.mjs";
import { hex } from "./tokens.mjs";

export function* guard(subject) {
  yield* once(subject);
  yield* callbacks(subject);
  yield* guardCodes(subject);
  yield* guardStore(subject);
  yield* guardClocks(subject);
  yield* guardV3(subject);
}

function* once(subject) {
  const { activation, recovery, verifier, activate, recover, stores, make } = sceneOfGuard(subject);

  for (const [what, store] of stores) {
    yield [
      `a link works once, in ${what}`,
      async () => {
        const { redeem, tryRedeem } = make(store());
        const token = await redeem(activation.token, activate);
        same(hex(token.secret), activation.secret, "secret");
        await rejection(subject, "ERR_TOKEN_USED", "again", () =>
          redeem(activation.token, activate),
        );
        const again = await tryRedeem(activation.token, activate);
        same(again.ok, false, "tryRedeem");
        same(again.reason, "ERR_TOKEN_USED", "reason of tryRedeem");
        refusal(subject, "ERR_TOKEN_USED", "error of tryRedeem", () => {
          throw subject.errors.errorOf(again);
        });
        same((await tryRedeem(recovery.token, recover)).ok, true, "another link");
      },
    ];
    yield [
      `verifying never uses a link, in ${what}`,
      async () => {
        const { redeem } = make(store());
        for (let time = 0; time < 100; time += 1) {
          verifier.verify(activation.token, activate);
          verifier.verifyLink(activation.token, activate);
        }
        same((await redeem(activation.token, activate)).action, "activate", "action");
      },
    ];
    yield [
      `of a hundred at once one gets to run the callback, in ${what}`,
      async () => {
        const shared = store();
        let ran = 0;
        const results = await Promise.all(
          Array.from({ length: 100 }, () =>
            // A guard for each, as for each request.
            make(shared).tryRedeem(activation.token, activate, async () => {
              ran += 1;
              return ran;
            }),
          ),
        );
        const winners = results.filter(({ ok }) => ok);
        same(winners.length, 1, "winners");
        same(winners[0].result, 1, "result");
        same(ran, 1, "runs of the callback");
        same(results.filter(({ reason }) => reason === "ERR_TOKEN_USED").length, 99, "losers");
      },
    ];
  }
}

function* callbacks(subject) {
  const { activation, activate, memory, failed, fail, make } = sceneOfGuard(subject);

  yield [
    "a callback that fails releases the link, and what it threw is thrown",
    async () => {
      for (const callback of [fail, async () => fail()]) {
        const { redeem, tryRedeem } = make(memory());
        for (const call of [redeem, tryRedeem]) {
          same(
            await call(activation.token, activate, callback).catch((error) => error),
            failed,
            "thrown",
          );
        }
        same(
          await redeem(activation.token, activate, (token) => token.version),
          2,
          "the result of the callback",
        );
      }
    },
  ];
  yield [
    "without a release, or with one that fails, the link stays used",
    async () => {
      const { consume } = recordingStore();
      const without = make({ consume });
      same(
        await without.redeem(activation.token, activate, fail).catch((error) => error),
        failed,
        "thrown",
      );
      same(
        (await without.tryRedeem(activation.token, activate)).reason,
        "ERR_TOKEN_USED",
        "afterwards",
      );

      const reason = new Error("gone");
      const release = async () => {
        throw reason;
      };
      const broken = make({ consume: recordingStore().consume, release });
      const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", "a release that fails", () =>
        broken.redeem(activation.token, activate, fail),
      );
      same(error.cause.errors[0], failed, "what the callback threw");
      same(error.cause.errors[1].cause, reason, "what the store threw");
    },
  ];
}
