// Tries at the digits that the browser shows that asked for a link: how many a visitor of another
// one has, and what takes none of them.

import { holds, same } from "./expect.mjs";
import { CODE, sceneOfBound } from "./handler_bound_scene.mjs";
import { read, scene } from "./handler_scene.mjs";
import { recordingStore } from "./stores.mjs";

export function* handlerBoundTries(subject) {
  yield [
    "a visitor gets three tries, all together five, and the browser that asked is never locked",
    async () => {
      const { openAs, pressAs, cookies, visitor, asked, judged } = sceneOfBound(subject);
      judged();
      const statuses = [];
      for (const number of [1, 1, 1, 1, 2, 1, 2, 2, 3, 4]) {
        statuses.push((await pressAs(visitor(number), "00000")).status);
      }
      same(statuses.join(), "422,422,422,429,422,429,422,429,429,429", "statuses");
      same(asked.length, 5, "calls of redeem");
      const locked = await read(await pressAs(visitor(1), CODE));
      same(locked.status, 429, "the right code after that");
      holds(locked.text.includes("It still works there"), locked.text);
      same((await openAs(cookies.same)).status, 200, "open in the right browser");
      same((await pressAs(cookies.same)).status, 200, "press in the right browser");
    },
  ];
  yield [
    "a scanner that guesses leaves two tries to the person on another device",
    async () => {
      const { pressAs, visitor, judged } = sceneOfBound(subject);
      judged();
      for (let guess = 0; guess < 9; guess += 1) await pressAs(visitor(1), `0000${guess}`);
      same((await pressAs(visitor(2), "99999")).status, 422, "a slip");
      same((await pressAs(visitor(2), CODE)).status, 200, "the code");
    },
  ];
  yield [
    "fifty guesses at once, with cookies or without, are five",
    async () => {
      for (const as of [
        () => "a=b",
        (visitor, guess) => visitor(guess),
        (visitor, guess) => visitor(guess % 2),
      ]) {
        const { pressAs, cookies, visitor, asked, judged } = sceneOfBound(subject);
        judged();
        const guesses = Array.from({ length: 50 }, (_, guess) =>
          pressAs(as(visitor, guess), `000${guess + 10}`),
        );
        const statuses = (await Promise.all(guesses)).map(({ status }) => status);
        holds(asked.length <= 5 && asked.length > 0, `${asked.length} were judged`);
        same(statuses.filter((status) => status === 422).length, asked.length, "verdicts");
        same((await pressAs(cookies.same)).status, 200, "the right browser after that");
      }
    },
  ];
  yield [
    "an outage costs no try elsewhere either, and wrong tokens none",
    async () => {
      const { pressAs, cookies, answers, judged, handle } = sceneOfBound(subject);
      const { press } = scene(subject);
      for (const answer of ["away", "not_eligible", new Error("no connection")]) {
        answers.judge = () => {
          if (answer instanceof Error) throw answer;
          return answer;
        };
        for (let time = 0; time < 7; time += 1) await pressAs(cookies.other, CODE);
      }
      for (let time = 0; time < 7; time += 1)
        await handle(press({ token: "x", browser_code: CODE }));
      judged();
      same((await pressAs(cookies.other, CODE)).status, 200, "afterwards");
    },
  ];
  yield [
    "an outage of the store locks no visitor out, who becomes another one",
    async () => {
      const inner = recordingStore();
      let isAway = true;
      const attempt = async (...given) => {
        const number = await inner.attempt(...given);
        if (isAway) throw new Error("no connection");
        return number;
      };
      const { pressAs, cookies, visitor, judged } = sceneOfBound(subject, "activate", 2, {
        store: { ...inner, attempt },
      });
      judged();
      let cookie = `${cookies.other}; ${visitor(1)}`;
      for (let time = 0; time < 7; time += 1) {
        const answer = await pressAs(cookie, CODE);
        same(answer.status, 503, "during the outage");
        cookie = answer.headers.get("Set-Cookie").split(";")[0];
      }
      isAway = false;
      same((await pressAs(cookie, CODE)).status, 200, "afterwards");
    },
  ];
  yield [
    "a store that is away or counts no tries lets no guess through",
    async () => {
      const failing = {
        consume: () => true,
        attempt: () => Promise.reject(new Error("no connection")),
      };
      for (const [store, status, reason] of [
        [failing, 503, "ERR_STORE_UNAVAILABLE"],
        [{ consume: () => true }, 500, "ERR_GUARD_UNSUPPORTED"],
      ]) {
        const { pressAs, cookies, asked, errors } = sceneOfBound(subject, "activate", 2, {
          store,
          storeTimeout: 0.05,
        });
        same((await pressAs(cookies.other, CODE)).status, status, reason);
        same(errors[0].reason, reason, "what is reported");
        same(asked.length, 0, "calls of redeem");
        same((await pressAs(cookies.same)).status, 200, "the right browser");
      }
    },
  ];
  yield [
    "a visitor gets a cookie of its own, never the one that binds, " +
      "and what is no such cookie is replaced",
    async () => {
      const { openAs, pressAs, cookies, visitor } = sceneOfBound(subject);
      for (const answer of [await openAs(cookies.other), await pressAs("mailroom-visitor=x", "")]) {
        const set = answer.headers.get("Set-Cookie");
        holds(/^mailroom-visitor=[0-9a-f]{32}; HttpOnly; SameSite=Lax; Secure$/.test(set), set);
      }
      same(
        (await openAs(`${cookies.other}; ${visitor(1)}`)).headers.get("Set-Cookie"),
        null,
        "one that is there",
      );
    },
  ];
}
