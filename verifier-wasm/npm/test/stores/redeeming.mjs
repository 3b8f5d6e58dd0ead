// What a guard does on a store, whichever that is. Runs in Node and in workerd.

import { same } from "../runtimes/suite/expect.mjs";

const activate = { action: "activate" };

/**
 * @param {object} verifierPackage the namespaces of the package and its handler as one
 * @param {{ key: string, code: string, activation: string, recovery: string, bound: string,
 *   nonce: string }} links
 * @param {() => object} makeStore a store on the same backend each time
 * @param {number} most how many codes are guessed at once; fewer for backends that keep a history
 * of them in one row
 */
export function* redeeming(
  { createVerifier, createGuard, createLinkHandler },
  { key, code, activation, recovery, bound, nonce },
  makeStore,
  most = 10_000,
) {
  const verifier = createVerifier({ keys: key });

  yield [
    `of ${most} guesses at once five get a verdict, and no more for the right code`,
    async () => {
      const { tryRedeem } = createGuard({ verifier, store: makeStore(), storeTimeout: 60 });
      const codes = Array.from({ length: 10_001 }, (_, number) => String(number).padStart(5, "0"));
      const guesses = codes.filter((guess) => guess !== code).slice(0, most);
      const verdicts = await Promise.all(
        guesses.map((guess) => tryRedeem(recovery, { action: "recover", code: guess })),
      );
      const count = (wanted) => verdicts.filter((verdict) => verdict.reason === wanted).length;
      same(count("ERR_CODE_MISMATCH"), 5, `verdicts of ${kinds(verdicts)}`);
      same(
        count("ERR_TOO_MANY_ATTEMPTS"),
        guesses.length - 5,
        `refused without one of ${kinds(verdicts)}`,
      );
      const right = await tryRedeem(recovery, { action: "recover", code });
      same(right.reason, "ERR_TOO_MANY_ATTEMPTS", "the right code");
    },
  ];
  yield [
    "a failed callback gives the link back, and of 200 at once one gets to run it",
    async () => {
      const reason = new Error("origin is down");
      const { redeem } = createGuard({ verifier, store: makeStore(), storeTimeout: 60 });
      const thrown = await redeem(activation, activate, () => Promise.reject(reason)).catch(
        (error) => error,
      );
      same(thrown, reason, "what was thrown");
      let ran = 0;
      const callback = () => {
        ran += 1;
      };
      const results = await Promise.all(
        Array.from({ length: 200 }, () => {
          const { tryRedeem } = createGuard({ verifier, store: makeStore(), storeTimeout: 60 });
          return tryRedeem(activation, activate, callback);
        }),
      );
      same(results.filter(({ ok }) => ok).length, 1, `winners of ${kinds(results)}`);
      same(results.filter(({ reason }) => reason === "ERR_TOKEN_USED").length, 199, "losers");
      same(ran, 1, "runs of the callback");
    },
  ];
  yield [
    "of ten presses of a bound link at once in another browser one has an effect, " +
      "used means used in each browser, and a verdict of unknown uses nothing",
    async () => {
      let effects = 0;
      let verdict = "unknown";
      const press = (cookie, more) => {
        const redeem = async () => {
          effects += verdict === "ok" ? 1 : 0;
          await new Promise((resolve) => setTimeout(resolve, 20));
          return verdict;
        };
        const handle = createLinkHandler({
          verifier,
          store: makeStore(),
          redeem,
          storeTimeout: 60,
          onError() {},
        });
        const headers = {
          "Content-Type": "application/x-www-form-urlencoded",
          Origin: "https://app.example",
          Cookie: cookie,
        };
        const body = new URLSearchParams({ token: bound, ...more }).toString();
        return handle(
          new Request("https://app.example/activate", { method: "POST", headers, body }),
        );
      };
      const ten = async (...given) => {
        const presses = Array.from({ length: 10 }, () => press(...given));
        return (await Promise.all(presses)).map(({ status }) => status);
      };
      const asking = `__Host-mailroom-browser=${nonce}`;
      // A database that does not know the link uses none, so it works in the right one.
      const unknown = await ten(asking);
      same(
        unknown.every((status) => [403, 503].includes(status)),
        true,
        `a database that does not know it: ${unknown}`,
      );
      verdict = "ok";
      const statuses = await ten("a=b", { browser_code: "31943" });
      same(
        `${effects} ${statuses.filter((status) => status === 200).length}`,
        "1 1",
        `effects and winners of ${statuses}`,
      );
      same((await press(asking)).status, 409, "the browser that asked");
      // The tries of those without a cookie are over.
      const visitor = `mailroom-visitor=${"1".repeat(32)}`;
      same((await press(visitor, { browser_code: "31943" })).status, 409, "another one");
      same(effects, 1, "effects");
    },
  ];
}

function kinds(results) {
  const words = results.map(({ ok, reason, message }) => (ok ? "ok" : `${reason} (${message})`));
  return [...new Set(words)].join(", ");
}
