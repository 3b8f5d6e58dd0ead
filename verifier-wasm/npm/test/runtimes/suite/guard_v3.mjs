// Links of v3: with the guard of either entry, and with codes that the application compares.

import { holds, rejection, same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { sceneOfGuard } from "./guard_scene.mjs";
import { whileInherited } from "./inherited.mjs";
import { recordingStore, untouchedStore } from "./stores.mjs";
import { hex, v3Pair } from "./tokens.mjs";

export function* guardV3(subject) {
  const { createGuard, publicEntry, vectors3 } = subject;
  if (publicEntry === undefined) {
    return;
  }
  const { clock, activate, wrong, memory, failed, fail } = sceneOfGuard(subject);
  const third = v3Pair(vectors3);
  const publicVerifier = publicEntry.createVerifier({
    keys: text(third.activation.publicKey),
    clock,
  });

  yield [
    "a v3 activation works once, with the guard of either entry",
    async () => {
      for (const create of [createGuard, publicEntry.createGuard]) {
        const { tryRedeem } = create({ verifier: publicVerifier, store: memory() });
        same((await tryRedeem(third.activation.token, activate)).ok, true, "the first time");
        same((await tryRedeem(third.activation.token, activate)).reason, "ERR_TOKEN_USED", "again");
      }
    },
  ];
  yield [
    "a v3 recovery without a way to compare its code takes no number",
    async () => {
      const { redeem } = createGuard({ verifier: publicVerifier, store: untouchedStore() });
      const error = await rejection(subject, "ERR_GUARD_UNSUPPORTED", "v3", () =>
        redeem(third.recovery.token, wrong),
      );
      holds(error.message.includes("checkCode"), error.message);
    },
  ];
  yield [
    "a v3 code is compared after its number was taken and before the token is used",
    async () => {
      const store = recordingStore();
      const asked = [];
      const checkCode = async (link, code) => {
        asked.push(
          `${hex(link.consumedId) === third.recovery.id} ${code} after ${store.methods()}`,
        );
        return code === "04711";
      };
      const { tryRedeem } = createGuard({
        verifier: publicVerifier,
        store,
        checkCode,
        maxCodeAttempts: 2,
      });
      const { token } = third.recovery;
      same(
        (await tryRedeem(token, { action: "recover", code: "00000" })).reason,
        "ERR_CODE_MISMATCH",
        "a wrong code",
      );
      const redeemed = await tryRedeem(token, { action: "recover", code: "04711" });
      same(redeemed.ok && redeemed.token.codeIsProven, true, "codeIsProven");
      same(
        (await tryRedeem(token, { action: "recover", code: "04711" })).reason,
        "ERR_TOO_MANY_ATTEMPTS",
        "the third",
      );
      same(
        asked.join(),
        "true 00000 after attempt,true 04711 after attempt attempt",
        "what was asked",
      );
      same(store.methods(), "attempt attempt consume attempt", "calls");
    },
  ];
  yield [
    "what all objects inherit does not keep a v3 token from saying that its code is proven",
    async () => {
      const { redeem } = createGuard({
        verifier: publicVerifier,
        store: recordingStore(),
        checkCode: () => true,
      });
      const token = await whileInherited({ get: "x" }, () => redeem(third.recovery.token, wrong));
      same(token.codeIsProven, true, "codeIsProven");
    },
  ];
  for (const answer of [1, "true", {}, [], null, undefined, new Boolean(true)]) {
    yield [
      `a comparison that answers ${String(answer)} (${typeof answer}) does not consent, and counts`,
      async () => {
        const store = recordingStore();
        const { token } = third.recovery;
        const checkCode = (_, code) => (code === "04711" ? true : answer);
        const { redeem, tryRedeem } = createGuard({ verifier: publicVerifier, store, checkCode });
        for (let time = 0; time < 5; time += 1) {
          await rejection(subject, "ERR_INVALID_ARGUMENT", "the answer", () =>
            redeem(token, wrong),
          );
        }
        const right = await tryRedeem(token, { action: "recover", code: "04711" });
        same(right.reason, "ERR_TOO_MANY_ATTEMPTS", "the right code after five others");
        same(store.methods(), Array(6).fill("attempt").join(" "), "calls");
      },
    ];
  }
  yield [
    "what a comparison throws is thrown, the try does not count, and the token is not used",
    async () => {
      const store = recordingStore();
      const { redeem } = createGuard({ verifier: publicVerifier, store, checkCode: fail });
      for (let time = 0; time < 6; time += 1) {
        same(await redeem(third.recovery.token, wrong).catch((error) => error), failed, "thrown");
      }
      same(store.methods(), Array(6).fill("attempt withdraw").join(" "), "calls");
      const again = createGuard({ verifier: publicVerifier, store, checkCode: () => true });
      same((await again.redeem(third.recovery.token, wrong)).codeIsProven, true, "afterwards");
    },
  ];
}
