// Answers of a store that are lost, and commands that arrive late or twice: the callback runs once,
// no use comes back, and nothing is counted twice.

import { rejection, same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { recordingStore } from "./stores.mjs";
import { v2Pair, v3Pair } from "./tokens.mjs";

export function* unanswered(subject) {
  const { createVerifier, createGuard, errors, publicEntry, vectors2, vectors3, options } = subject;
  const { activation, recovery } = v2Pair(vectors2);
  const clock = () => activation.now;
  const verifier = createVerifier({ keys: activation.key, clock, ...options });
  const activate = { action: "activate" };
  const recover = { action: "recover", code: recovery.code };
  const wrong = { action: "recover", code: recovery.wrongCode };
  const lost = new Error("the connection was cut");

  /**
   * A store that loses commands or answers, as said for its calls in their order: "before",
   * "after", "never" or "late".
   */
  function faulty(...faults) {
    const inner = recordingStore();
    const late = [];
    const lossy = (method) => async (id, until, owner) => {
      const fault = faults.shift();
      if (fault === "before") throw lost;
      if (fault === "late") {
        late.push(() => inner[method](id, until, owner));
        return new Promise(() => {});
      }
      const answer = await inner[method](id, until, owner);
      if (fault === "after") throw lost;
      if (fault === "never") return new Promise(() => {});
      return answer;
    };
    const methods = ["consume", "release", "attempt", "withdraw"].map((method) => [
      method,
      lossy(method),
    ]);
    /** Lets come what is late. */
    const arrive = () => Promise.all(late.splice(0).map((come) => come()));
    return { ...inner, ...Object.fromEntries(methods), faults, arrive };
  }

  const guardOf = (store, more = {}) =>
    createGuard({ verifier, store, storeTimeout: 0.1, ...more });

  for (const fault of ["before", "after", "never"]) {
    yield [
      `a consume of which the answer is lost (${fault}) is asked for again, by the same owner`,
      async () => {
        const store = faulty(fault);
        let runs = 0;
        const run = () => {
          runs += 1;
        };
        same(
          (await guardOf(store).tryRedeem(activation.token, activate, run)).ok,
          true,
          "the first",
        );
        same(
          (await guardOf(store).tryRedeem(activation.token, activate, run)).reason,
          "ERR_TOKEN_USED",
          "the second",
        );
        same(runs, 1, "runs of the callback");
        const owners = store.calls.map(({ by }) => by);
        const asked = fault === "before" ? 1 : 2;
        same(new Set(owners.slice(0, asked)).size, 1, "owners of the first redemption");
        same(new Set(owners).size, 2, "owners of both");
      },
    ];
    yield [
      `a consume that is lost twice (${fault}) is released, and the link works`,
      async () => {
        for (const release of [undefined, fault]) {
          const store = faulty(fault, fault, release);
          const run = () => {
            throw new Error("the callback was run");
          };
          const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", "the first", () =>
            guardOf(store).redeem(activation.token, activate, run),
          );
          if (fault !== "never") same(error.cause, lost, "cause");
          same(store.faults.length, 0, "faults that are left");
          same(store.methods().split(" ").at(-1), "release", "the last call");
          same((await guardOf(store).tryRedeem(activation.token, activate)).ok, true, "the second");
        }
      },
    ];
    yield [
      `a release without an answer (${fault}) is repeated, and the callback's error is thrown`,
      async () => {
        const store = faulty(undefined, fault);
        const failed = new Error("origin is down");
        const thrown = await guardOf(store)
          .redeem(activation.token, activate, () => Promise.reject(failed))
          .catch((error) => error);
        same(thrown, failed, "thrown");
        same((await guardOf(store).tryRedeem(activation.token, activate)).ok, true, "the second");
      },
    ];
    yield [
      `a try of which the number is lost (${fault}) is taken back`,
      async () => {
        for (const withdraw of [undefined, fault]) {
          const store = faulty(fault, withdraw);
          const { tryRedeem } = guardOf(store);
          same(
            (await tryRedeem(recovery.token, recover)).reason,
            "ERR_STORE_UNAVAILABLE",
            "the first",
          );
          same(store.faults.length, 0, "faults that are left");
          const reasons = [];
          for (let time = 0; time < 6; time += 1)
            reasons.push((await tryRedeem(recovery.token, wrong)).reason);
          same(reasons.filter((reason) => reason === "ERR_CODE_MISMATCH").length, 5, "verdicts");
          same(reasons.at(-1), "ERR_TOO_MANY_ATTEMPTS", "the sixth");
        }
      },
    ];
  }

  yield [
    "a consume that arrives after its release uses nothing, and a second callback is not run",
    async () => {
      const store = faulty("late", "late");
      const { tryRedeem } = guardOf(store);
      same(
        (await tryRedeem(activation.token, activate)).reason,
        "ERR_STORE_UNAVAILABLE",
        "the first",
      );
      await store.arrive();
      same(store.methods(), "release consume consume", "what arrived");
      let runs = 0;
      const run = () => {
        runs += 1;
      };
      same((await tryRedeem(activation.token, activate, run)).ok, true, "the second");
      same(
        (await tryRedeem(activation.token, activate, run)).reason,
        "ERR_TOKEN_USED",
        "the third",
      );
      same(runs, 1, "runs of the callback");
    },
  ];
  yield [
    "it is said when nobody knows whether the token counts as used",
    async () => {
      const store = faulty("after", "after", "before", "before");
      const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", "the first", () =>
        guardOf(store).redeem(activation.token, activate),
      );
      same(
        /whether the token counts as used is not known/.test(error.message),
        true,
        error.message,
      );
      same(error.cause, lost, "cause");
    },
  ];
  yield [
    "a store that says that it is full, or that the time is over, is not asked again",
    async () => {
      for (const Denial of [errors.StoreFullError, errors.TokenExpiredError]) {
        const asked = [];
        const deny = (method) => async () => {
          asked.push(method);
          throw new Denial("for a reason");
        };
        const store = {
          consume: deny("consume"),
          attempt: deny("attempt"),
          release: deny("release"),
        };
        same(
          (await guardOf(store).tryRedeem(activation.token, activate)).reason,
          Denial.reason,
          "consume",
        );
        same(
          (await guardOf(store).tryRedeem(recovery.token, recover)).reason,
          Denial.reason,
          "attempt",
        );
        same(asked.join(), "consume,attempt", "calls");
      }
    },
  ];
  yield [
    "an owner is 16 random bytes of one redemption, the same for its try and its use",
    async () => {
      const store = recordingStore();
      for (let time = 0; time < 3; time += 1)
        await guardOf(store).tryRedeem(recovery.token, recover);
      const owners = new Set(store.calls.map(({ by }) => by));
      same(owners.size, 3, "owners");
      same(
        [...owners].every((owner) => /^[0-9a-f]{32}$/.test(owner)),
        true,
        "16 bytes",
      );
      for (let call = 0; call < store.calls.length; call += 2) {
        same(store.calls[call].by, store.calls[call + 1].by, "the owner of a try and of its use");
      }
    },
  ];

  if (publicEntry === undefined) return;
  const third = v3Pair(vectors3);
  yield [
    "a try without a verdict that cannot be taken back at first is taken back again",
    async () => {
      const failed = new Error("the comparison timed out");
      const store = faulty(undefined, "before");
      const { redeem } = createGuard({
        verifier: publicEntry.createVerifier({ keys: text(third.activation.publicKey), clock }),
        store,
        checkCode: () => Promise.reject(failed),
      });
      same(await redeem(third.recovery.token, wrong).catch((error) => error), failed, "thrown");
      same(store.methods(), "attempt withdraw", "what arrived");
      same(new Set(store.calls.map(({ by }) => by)).size, 1, "owners");
    },
  ];
}
