// A link works once, whoever shares the store and however often it is tried. What is asked of the
// guard here is what verifier-core/tests/guard.rs asks of the core's.

import { holds, refusal, rejection, same } from "./expect.mjs";
import { whileInherited } from "./inherited.mjs";
import { text } from "./formats.mjs";
import { recordingStore, untouchedStore } from "./stores.mjs";
import { altered, hex, pair, v2Pair, v3Pair } from "./tokens.mjs";

/** The largest clock tolerance that is allowed, and what clocks may differ by besides. */
const MARGIN = 999 + 300;

export function* guard(subject) {
  const {
    createVerifier,
    createGuard,
    createMemoryStore,
    publicEntry,
    vectors,
    vectors2,
    vectors3,
    options,
  } = subject;
  const { activation, recovery } = v2Pair(vectors2);
  const old = pair(vectors);
  const keys = [activation.key, old.activation.key];
  const clock = () => activation.now;
  const verifier = createVerifier({ keys, clock, ...options });
  const activate = { action: "activate" };
  const recover = { action: "recover", code: recovery.code };
  const wrong = { action: "recover", code: recovery.wrongCode };
  const memory = (capacity = 200) => createMemoryStore({ capacity, clock });
  const failed = new Error("origin is down");
  const fail = () => {
    throw failed;
  };
  const make = (store, more = {}) => createGuard({ verifier, store, ...more });

  for (const [what, store] of [
    ["memory", memory],
    ["an asynchronous store", recordingStore],
  ]) {
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
    yield [
      `of 10,000 guesses at once five get a verdict, and no more for the right code, in ${what}`,
      async () => {
        const { tryRedeem } = make(store());
        const codes = Array.from({ length: 100_000 }, (_, number) =>
          String(number).padStart(5, "0"),
        );
        const guesses = codes.filter((code) => code !== recovery.code).slice(0, 9_999);
        const verdicts = await Promise.all(
          guesses.map((code) => tryRedeem(recovery.token, { action: "recover", code })),
        );
        verdicts.push(await tryRedeem(recovery.token, recover));
        const count = (reason) => verdicts.filter((verdict) => verdict.reason === reason).length;
        same(count("ERR_CODE_MISMATCH"), 5, "verdicts");
        same(count("ERR_TOO_MANY_ATTEMPTS"), 9_995, "refused without one");
      },
    ];
  }

  yield [
    "the right code recovers within the tries that are allowed, and not after them",
    async () => {
      for (const [maxCodeAttempts, tries, reason] of [
        [undefined, 4, undefined],
        [undefined, 5, "ERR_TOO_MANY_ATTEMPTS"],
        [1, 0, undefined],
        [1, 1, "ERR_TOO_MANY_ATTEMPTS"],
        [7, 6, undefined],
      ]) {
        const { tryRedeem } = make(memory(), { maxCodeAttempts });
        for (let time = 0; time < tries; time += 1) {
          same(
            (await tryRedeem(recovery.token, wrong)).reason,
            "ERR_CODE_MISMATCH",
            "a wrong code",
          );
        }
        const result = await tryRedeem(recovery.token, recover);
        same(
          result.reason,
          reason,
          `after ${tries} wrong codes of ${maxCodeAttempts ?? 5} allowed`,
        );
        same(result.ok && result.token.codeIsProven, reason === undefined, "codeIsProven");
      }
    },
  ];

  yield [
    "a missing or malformed code takes no number",
    async () => {
      const { tryRedeem } = make(memory(), { maxCodeAttempts: 1 });
      same(
        (await tryRedeem(recovery.token, { action: "recover" })).reason,
        "ERR_CODE_REQUIRED",
        "no code",
      );
      for (const code of [
        "",
        "4711",
        "047111",
        "0471a",
        " 4711",
        "0471\n",
        "\u0660\u0661\u0662\u0663\u0664",
      ]) {
        const { reason: found } = await tryRedeem(recovery.token, { action: "recover", code });
        same(found, "ERR_CODE_MALFORMED", JSON.stringify(code));
      }
      same((await tryRedeem(recovery.token, recover)).ok, true, "the right code");
    },
  ];

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

  if (publicEntry === undefined) {
    return;
  }
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
