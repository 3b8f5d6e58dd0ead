// Several processes that share a store, each with a handler of its own: none says that a link was
// used while another one may give it back.

import { scene as sceneOfBrowsers } from "./browsers.mjs";
import { holds, same } from "./expect.mjs";
import { read, scene } from "./handler_scene.mjs";
import { recordingStore } from "./stores.mjs";
import { pair } from "./tokens.mjs";

const BROWSER_CODE = "31943";

/** The kinds of links, and the presses of them that may come to different processes. */
function kindsOf(subject) {
  const { createVerifier, vectors, options } = subject;
  const { activation, recovery, verifier, press } = scene(subject);
  const { activation: old } = pair(vectors);
  const unbound = ({ token, code }, path) => {
    const fields = { token, ...(code !== undefined && { code }) };
    return () => press(fields, { path });
  };
  const bound = sceneOfBrowsers(subject, "activate");
  const as = (nonce, more) => () =>
    press(
      { token: bound.token, ...more },
      { headers: { Cookie: `__Host-mailroom-browser=${nonce}` } },
    );
  const own = as(bound.nonce);
  const elsewhere = as(bound.other, { browser_code: BROWSER_CODE });
  const ofBound = { verifier: bound.verifier };
  return {
    "an activation": [{ verifier }, unbound(activation, "/activate")],
    "a recovery": [{ verifier }, unbound(recovery, "/recover")],
    "an activation of v1": [
      { verifier: createVerifier({ keys: old.key, ...options }) },
      unbound({ token: old.token }, "/activate"),
    ],
    "a bound link in its browser": [ofBound, own],
    "a bound link in another browser and in its own": [ofBound, elsewhere, own],
    "a bound link in its browser and in another one": [ofBound, own, elsewhere],
    "a bound link in another browser": [ofBound, elsewhere],
  };
}

/** Two handlers of one store, and an application that answers when it is told to. */
function twoOf(subject, more) {
  const { make } = scene(subject);
  const waiting = [];
  const redeem = () => new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  const both = { store: recordingStore(), redeem, ...more };
  const asked = async (calls) => {
    for (let turn = 0; waiting.length < calls && turn < 60_000; turn += 1)
      await new Promise((turn) => setTimeout(turn, 1));
    same(waiting.length, calls, "calls of redeem");
    return waiting.at(-1);
  };
  return { one: make(both), two: make(both), asked };
}

export function* handlerProcesses(subject) {
  const error = new Error("no connection");
  for (const [kind, [more, first, second = first]] of Object.entries(kindsOf(subject))) {
    yield [
      `${kind}: while one process uses it, another says try again, and afterwards what is true`,
      async () => {
        for (const [answer, status, isGivenBack] of [
          ["ok", 200, false],
          ["unknown", 403, true],
          ["away", 503, true],
          ["not_eligible", 409, true],
          [{ again: "Choose a longer password." }, 422, true],
          [error, 503, true],
        ]) {
          const { one, two, asked } = twoOf(subject, more);
          const pressed = one(first());
          const use = await asked(1);
          for (let time = 0; time < 3; time += 1) {
            const page = await read(await two(second()));
            same(page.status, 503, `meanwhile, before ${answer}`);
            holds(!page.text.includes("already used"), page.text);
            // The page keeps the link for the next press.
            holds(page.text.includes('name="token"') && page.text.includes("keep("), page.text);
          }
          if (answer === error) use.reject(error);
          else use.resolve(answer);
          same((await pressed).status, status, String(answer));
          if (!isGivenBack) {
            for (const handle of [two, one, two])
              same((await handle(second())).status, 409, `after ${answer}`);
            continue;
          }
          // The next use is one as well, whatever was found out about the one before.
          const again = two(second());
          const next = await asked(2);
          same((await one(first())).status, 503, "while the other one uses it");
          next.resolve("ok");
          same((await again).status, 200, "the link in truth");
          for (const handle of [one, two])
            same((await handle(first())).status, 409, "after its use");
        }
      },
    ];
  }
  const [more, press] = kindsOf(subject)["an activation"];
  yield [
    "a use that is final costs the store one call more, and one that is refused two",
    async () => {
      const store = recordingStore();
      const { one, two, asked } = twoOf(subject, { ...more, store });
      const pressed = one(press());
      (await asked(1)).resolve("ok");
      await pressed;
      same(store.methods(), "consume release", "the use");
      await two(press());
      same(store.methods(), "consume release consume consume", "and a press after it");
    },
  ];
  yield [
    "a store that is away when it is asked about a use makes none final",
    async () => {
      const inner = recordingStore();
      let calls = 0;
      // The first call of each press is the use; whatever comes behind it has no answer.
      const failing =
        (method) =>
        async (...given) => {
          const answer = await inner[method](...given);
          calls += 1;
          if (calls > 1) throw new Error("no connection");
          return answer;
        };
      const away = { consume: failing("consume"), release: failing("release") };
      const { one, asked } = twoOf(subject, { ...more, store: inner });
      const { two } = twoOf(subject, { ...more, store: away });
      const pressed = one(press());
      const use = await asked(1);
      for (let time = 0; time < 3; time += 1) {
        calls = 0;
        same((await two(press())).status, 503, "meanwhile");
      }
      use.resolve("away");
      same((await pressed).status, 503, "the first press");
      const again = one(press());
      const next = await asked(2);
      const { two: third } = twoOf(subject, { ...more, store: inner });
      same((await third(press())).status, 503, "while it is used again");
      next.resolve("ok");
      same((await again).status, 200, "the link in truth");
    },
  ];
  yield [
    "a store that gives no use back says at once that a link is used",
    async () => {
      const { consume } = recordingStore();
      const { one, two, asked } = twoOf(subject, { ...more, store: { consume } });
      const pressed = one(press());
      const use = await asked(1);
      same((await two(press())).status, 409, "another process");
      use.resolve("ok");
      same((await pressed).status, 200, "the first press");
    },
  ];
  for (const [pace, delay] of [
    ["quick", 0],
    ["slow", 1_100],
  ])
    yield [
      `after a process ended while it used a link, nobody reads try again for ever (${pace})`,
      async () => {
        // As slow as a database under load or in another region, and quicker than the timeout.
        const inner = recordingStore();
        const attempt = async (...given) => {
          if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
          return inner.attempt(...given);
        };
        const store = { ...inner, attempt };
        const { one, two, asked } = twoOf(subject, { ...more, store, storeTimeout: 60 });
        const { now } = Date;
        try {
          // A clock that stands still meanwhile: a busy machine may take minutes for the presses.
          let time = now();
          Date.now = () => time;
          one(press());
          await asked(1);
          const statuses = [];
          time += 1_000;
          for (let minute = 0; minute < (delay > 0 ? 12 : 60); minute += 1) {
            statuses.push((await two(press())).status);
            time += 60_000;
          }
          same(statuses.filter((status) => status === 503).length, 10, "minutes of try again");
          same(
            statuses.slice(10).every((status) => status === 409),
            true,
            statuses.join(),
          );
        } finally {
          Date.now = now;
        }
      },
    ];
}
