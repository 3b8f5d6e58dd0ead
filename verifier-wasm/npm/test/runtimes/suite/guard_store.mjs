// What a guard asks of its store: in which order, with which id and for how long, and for which
// tokens nothing at all.

import { holds, rejection, same } from "./expect.mjs";
import { MARGIN, sceneOfGuard } from "./guard_scene.mjs";
import { recordingStore, untouchedStore } from "./stores.mjs";
import { altered, hex } from "./tokens.mjs";

export function* guardStore(subject) {
  const { createVerifier, createGuard, options } = subject;
  const { activation, recovery, old, keys, clock, activate, recover, memory, failed, make } =
    sceneOfGuard(subject);

  yield [
    "numbers are taken before codes are compared, uses after everything else, " +
      "with the id and the time to remember it",
    async () => {
      const tolerance = 60;
      const tolerant = createVerifier({ keys, clock, clockTolerance: tolerance, ...options });
      const store = recordingStore();
      const { redeem } = createGuard({ verifier: tolerant, store });
      let calls;
      await redeem(recovery.token, recover, () => {
        calls = store.methods();
      });
      same(calls, "attempt consume", "calls before the callback");
      for (const { name, until } of store.calls) {
        same(name, recovery.id, "id");
        same(until, recovery.expiresAt + MARGIN, "time");
      }
    },
  ];

  yield [
    "the store gets a copy of the id at each call, and what it does with it harms nobody",
    async () => {
      const store = recordingStore();
      const consume = store.consume;
      store.consume = (id, until, owner) => {
        const answer = consume(id, until, owner);
        id.fill(0);
        owner.fill(0);
        return answer;
      };
      const { redeem } = make(store);
      const callback = (token) => {
        same(hex(token.consumedId), recovery.id, "consumedId of the token");
        throw failed;
      };
      const error = await redeem(recovery.token, recover, callback).catch((thrown) => thrown);
      same(error, failed, "what the callback threw");
      same(store.methods(), "attempt consume release", "calls");
      same(
        new Set(store.calls.flatMap(({ id, owner }) => [id, owner])).size,
        6,
        "different arrays",
      );
      same(new Set(store.calls.map(({ by }) => by)).size, 1, "owners");
      same(
        store.calls.every(({ name }) => name === recovery.id),
        true,
        "the ids",
      );
      same((await redeem(recovery.token, recover)).action, "recover", "a second time");
    },
  ];

  yield [
    "a token that is not genuine, valid and for this action never touches the store",
    async () => {
      const { tryRedeem } = make(untouchedStore(), { v1RememberFor: 900 });
      for (const [token, expected, code] of [
        ["", activate, "ERR_TOKEN_MALFORMED"],
        ["A".repeat(86), activate, "ERR_TOKEN_SIGNATURE"],
        [`${activation.token}=`, activate, "ERR_TOKEN_MALFORMED"],
        [altered(activation.token), activate, "ERR_TOKEN_SIGNATURE"],
        [altered(old.activation.token), activate, "ERR_TOKEN_SIGNATURE"],
        [altered(recovery.token), recover, "ERR_TOKEN_SIGNATURE"],
        [recovery.token, activate, "ERR_TOKEN_ACTION"],
        [activation.token, recover, "ERR_TOKEN_ACTION"],
        [activation.token, { ...activate, code: "01234" }, "ERR_CODE_UNCHECKABLE"],
        [old.activation.token, { ...activate, code: "01234" }, "ERR_CODE_UNCHECKABLE"],
        [old.activation.token, { ...activate, expiresAt: activation.now }, "ERR_TOKEN_EXPIRED"],
      ]) {
        same(
          (await tryRedeem(token, expected)).reason,
          code,
          `${token.length} characters to ${expected.action}`,
        );
      }
      const late = createVerifier({ keys, clock: () => activation.expiresAt, ...options });
      const expired = await createGuard({ verifier: late, store: untouchedStore() }).tryRedeem(
        activation.token,
        activate,
      );
      same(expired.reason, "ERR_TOKEN_EXPIRED", "an expired link");
    },
  ];

  yield [
    "what cannot be judged here is refused before the store is asked, with a word on what to do",
    async () => {
      const refused = async (guard, token, expected, word) => {
        const error = await rejection(subject, "ERR_GUARD_UNSUPPORTED", word, () =>
          guard.redeem(token, expected),
        );
        holds(error.message.includes(word), error.message);
      };
      const untouched = make(untouchedStore());
      await refused(
        untouched,
        old.recovery.token,
        { action: "recover", code: old.recovery.code },
        "database",
      );
      await refused(
        untouched,
        old.recovery.token,
        { action: "recover", code: "00000" },
        "database",
      );
      await refused(untouched, old.activation.token, activate, "v1RememberFor");
      await refused(
        make({ consume: untouchedStore().consume }),
        recovery.token,
        recover,
        "attempt",
      );
    },
  ];

  yield [
    "a full store denies and forgets nothing",
    async () => {
      const { tryRedeem } = make(memory(1));
      same((await tryRedeem(activation.token, activate)).ok, true, "the first");
      same((await tryRedeem(recovery.token, recover)).reason, "ERR_STORE_FULL", "the second");
      same(
        (await tryRedeem(activation.token, activate)).reason,
        "ERR_TOKEN_USED",
        "the first again",
      );
    },
  ];
}
