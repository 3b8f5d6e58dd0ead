// Whatever a store does, only `true` lets a token through; whatever a guard is made of or asked,
// errors are those of the package.

import { notStrings, thrower, throwingProxy } from "./hostile.mjs";
import { holds, refusal, rejection, same } from "./expect.mjs";
import { recordingStore } from "./stores.mjs";
import { v2Pair } from "./tokens.mjs";

const ARGUMENT = "ERR_INVALID_ARGUMENT";
const UNAVAILABLE = "ERR_STORE_UNAVAILABLE";

export function* hostileStores(subject) {
  const { createVerifier, createGuard, errors, vectors2, options } = subject;
  const { activation, recovery } = v2Pair(vectors2);
  const verifier = createVerifier({
    keys: activation.key,
    clock: () => activation.now,
    ...options,
  });
  const activate = { action: "activate" };
  const recover = { action: "recover", code: recovery.code };
  const consent = { consume: () => true, attempt: () => 1 };

  /** Redeems on a store, which must deny with this reason without the callback being run. */
  async function denied(reason, what, store, token = activation.token, expected = activate) {
    const { redeem, tryRedeem } = createGuard({ verifier, store, storeTimeout: 0.05 });
    let ran = 0;
    const callback = () => {
      ran += 1;
    };
    const result = await tryRedeem(token, expected, callback);
    same(result.ok, false, what);
    same(result.reason, reason, what);
    const error = await rejection(subject, reason, what, () => redeem(token, expected, callback));
    same(ran, 0, `runs of the callback, ${what}`);
    return error;
  }

  const notConsent = [
    ...[1, 0, -1, NaN, "true", "OK", "", null, undefined, 1n, Symbol("true")],
    ...[
      {},
      [],
      [true],
      new Boolean(true),
      () => true,
      { valueOf: () => true },
      /true/,
      new Proxy({}, {}),
    ],
    ...[throwingProxy({}), throwingProxy(() => true)],
  ];
  for (const answer of notConsent) {
    const what = `an answer that is ${described(answer)}`;
    yield [
      `${what} is no consent`,
      async () => {
        await denied(UNAVAILABLE, what, { consume: () => answer });
        await denied(UNAVAILABLE, `${what}, later`, { consume: async () => answer });
        await denied(
          UNAVAILABLE,
          `${what}, by a thenable`,
          thenable((resolve) => resolve(answer)),
        );
      },
    ];
  }
  for (const answer of [
    0,
    -1,
    1.5,
    NaN,
    Infinity,
    2 ** 53,
    "1",
    1n,
    true,
    null,
    undefined,
    {},
    [1],
  ]) {
    const what = `a number that is ${described(answer)}`;
    yield [
      `${what} gives no verdict on the code`,
      async () => {
        const store = { consume: thrower, attempt: () => answer };
        await denied(UNAVAILABLE, what, store, recovery.token, recover);
        await denied(UNAVAILABLE, what, store, recovery.token, {
          ...recover,
          code: recovery.wrongCode,
        });
        await denied(
          UNAVAILABLE,
          `${what}, later`,
          { ...store, attempt: async () => answer },
          recovery.token,
          recover,
        );
      },
    ];
  }
  for (const thrown of [
    new RangeError("gone"),
    "gone",
    null,
    undefined,
    0,
    true,
    {},
    throwingProxy({}),
  ]) {
    yield [
      `a store that throws ${described(thrown)} denies, and the reason is told`,
      async () => {
        const fail = () => {
          throw thrown;
        };
        for (const store of [
          { consume: fail },
          { consume: async () => fail() },
          thenable((_, reject) => reject(thrown)),
          thenable(fail),
        ]) {
          same((await denied(UNAVAILABLE, "consume", store)).cause, thrown, "cause");
        }
        const store = { consume: () => true, attempt: fail };
        same(
          (await denied(UNAVAILABLE, "attempt", store, recovery.token, recover)).cause,
          thrown,
          "cause",
        );
      },
    ];
  }
  yield [
    "a store says with errors of the package that it is full, cannot be reached, or asked too late",
    async () => {
      for (const { StoreFullError, StoreUnavailableError, TokenExpiredError } of [errors]) {
        for (const Denial of [StoreFullError, StoreUnavailableError, TokenExpiredError]) {
          const reason = new Denial("for a reason");
          const fail = () => {
            throw reason;
          };
          same(await denied(Denial.reason, "thrown", { consume: fail }), reason, "the error");
          same(
            await denied(Denial.reason, "rejected", { consume: async () => fail() }),
            reason,
            "the error",
          );
        }
      }
    },
  ];
  yield [
    "a store that answers false is believed",
    async () => {
      await denied("ERR_TOKEN_USED", "at once", { consume: () => false });
      await denied("ERR_TOKEN_USED", "later", { consume: async () => false });
    },
  ];
  yield [
    "of a thenable that answers twice the first answer counts, once",
    async () => {
      const store = thenable((resolve, reject) => {
        resolve(false);
        resolve(true);
        reject(new Error("both"));
      });
      await denied("ERR_TOKEN_USED", "false and true", store);
      let ran = 0;
      const twice = thenable((resolve) => {
        resolve(true);
        resolve(true);
      });
      const { redeem } = createGuard({ verifier, store: twice });
      await redeem(activation.token, activate, () => {
        ran += 1;
      });
      same(ran, 1, "runs of the callback");
    },
  ];
  yield [
    "a store that does not answer in time denies",
    async () => {
      await denied(UNAVAILABLE, "never", { consume: () => new Promise(() => {}) });
      await denied(
        UNAVAILABLE,
        "never",
        { ...consent, attempt: () => new Promise(() => {}) },
        recovery.token,
        recover,
      );
      await denied(
        UNAVAILABLE,
        "never, by a thenable",
        thenable(() => {}),
      );
    },
  ];
  yield [
    "methods of a store are read once, and are called on it",
    async () => {
      const inner = recordingStore();
      let reads = 0;
      class Store {
        get consume() {
          reads += 1;
          return function consume(...given) {
            holds(this instanceof Store, "another this");
            same(given.length, 3, "arguments");
            return inner.consume(...given);
          };
        }
      }
      const { redeem, tryRedeem } = createGuard({ verifier, store: new Store() });
      await redeem(activation.token, activate);
      same((await tryRedeem(activation.token, activate)).reason, "ERR_TOKEN_USED", "again");
      same(reads, 1, "reads");
    },
  ];

  for (const [what, store] of [
    ...[...notStrings("store")].filter(([, value]) => typeof value !== "function"),
    ["an object whose consume is no method", { consume: true }],
    ["an object whose attempt is no method", { ...consent, attempt: 5 }],
    ["an object whose release is no method", { ...consent, release: "release" }],
    ["an object whose withdraw is no method", { ...consent, withdraw: 5 }],
    ["an object whose consume throws", Object.defineProperty({}, "consume", { get: thrower })],
  ]) {
    yield [
      `a guard with a store that is ${what}`,
      () => void refusal(subject, ARGUMENT, what, () => createGuard({ verifier, store })),
    ];
  }
  for (const [what, value] of notStrings("verifier")) {
    yield [
      `a guard with a verifier that is ${what}`,
      () =>
        void refusal(subject, ARGUMENT, what, () =>
          createGuard({ verifier: value, store: consent }),
        ),
    ];
    yield [
      `a guard with options that are ${what}`,
      () => void refusal(subject, ARGUMENT, what, () => createGuard(value)),
    ];
  }
  for (const more of [
    { maxCodeAttempts: 0 },
    { maxCodeAttempts: -1 },
    { maxCodeAttempts: 1.5 },
    { maxCodeAttempts: 101 },
    { maxCodeAttempts: Infinity },
    { maxCodeAttempts: "5" },
    { checkCode: true },
    { storeTimeout: 0 },
    { storeTimeout: NaN },
    { storeTimeout: 5000 },
    { storeTimeout: "1" },
    { v1RememberFor: 0 },
    { v1RememberFor: NaN },
    { v1RememberFor: 1_800_000_000 },
    { maxAttempts: 5 },
    { namespace: "mailroom" },
  ]) {
    const [[name, value]] = Object.entries(more);
    yield [
      `a guard with ${name}: ${String(value)}`,
      () =>
        void refusal(subject, ARGUMENT, name, () =>
          createGuard({ verifier, store: consent, ...more }),
        ),
    ];
  }

  const { redeem, tryRedeem } = createGuard({ verifier, store: consent });
  for (const [what, value] of notStrings(activation.token)) {
    yield [
      `${what} given to redeem`,
      async () => {
        await rejection(subject, "ERR_TOKEN_MALFORMED", "as a token", () =>
          redeem(value, activate),
        );
        same((await tryRedeem(value, activate)).reason, "ERR_TOKEN_MALFORMED", "as a token");
        if (value !== undefined) {
          const expected = { action: "recover", code: value };
          await rejection(subject, "ERR_CODE_MALFORMED", "as a code", () =>
            redeem(recovery.token, expected),
          );
          same(
            (await tryRedeem(recovery.token, expected)).reason,
            "ERR_CODE_MALFORMED",
            "as a code",
          );
        }
        for (const call of [redeem, tryRedeem]) {
          await rejection(subject, ARGUMENT, "as options", () => call(activation.token, value));
          await rejection(subject, ARGUMENT, "as an action", () =>
            call(activation.token, { action: value }),
          );
          if (value !== undefined && typeof value !== "function") {
            await rejection(subject, ARGUMENT, "as a callback", () =>
              call(activation.token, activate, value),
            );
          }
        }
      },
    ];
  }
}

function thenable(then) {
  return { consume: () => ({ then }) };
}

function described(value) {
  try {
    return `${String(value)} (${typeof value})`;
  } catch {
    return `a ${typeof value} that has no string`;
  }
}
