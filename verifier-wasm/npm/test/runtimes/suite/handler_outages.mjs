// Stores, keys and callbacks that fail or never answer: nothing is used, nobody is told that a link
// was, and the operator learns of it.

import { holds, same } from "./expect.mjs";
import { SITE, read, scene } from "./handler_scene.mjs";
import { untouchedStore } from "./stores.mjs";
import { altered } from "./tokens.mjs";

export function* handlerOutages(subject) {
  yield [
    "a store that is away says try again, never used, and nothing is asked for",
    async () => {
      const { make, press, activation, asked, errors, clock } = scene(subject);
      const inner = subject.createMemoryStore({ capacity: 10, clock });
      let away = true;
      const store = {
        async consume(...given) {
          if (away) throw new Error("no connection");
          return inner.consume(...given);
        },
        release: async (...given) => inner.release(...given),
      };
      const handle = make({ store, storeTimeout: 0.05 });
      for (let time = 0; time < 3; time += 1) {
        const page = await read(await handle(press({ token: activation.token })));
        same(page.status, 503, "status");
        same(page.headers.get("Retry-After"), "5", "Retry-After");
        holds(page.text.includes("Try again") && !page.text.includes("already used"), page.text);
        holds(page.text.includes(`value="${activation.token}"`), "the button is there again");
      }
      same(asked.length, 0, "calls of redeem");
      same(errors.at(-1).reason, "ERR_STORE_UNAVAILABLE", "what is reported");
      away = false;
      same((await handle(press({ token: activation.token }))).status, 200, "afterwards");
    },
  ];
  yield [
    "a store that never answers is waited for as long as was said",
    async () => {
      const { make, press, activation } = scene(subject);
      const handle = make({ store: { consume: () => new Promise(() => {}) }, storeTimeout: 0.02 });
      same((await handle(press({ token: activation.token }))).status, 503, "status");
    },
  ];
  yield [
    "keys that are missing are reported, and the visitor is told that the site has a problem",
    async () => {
      const { make, open, press, activation, errors } = scene(subject);
      const verifier = subject.createVerifier({ keys: () => "", ...subject.options });
      const handle = make({ verifier });
      same((await handle(open(activation.token))).status, 500, "open");
      same((await handle(press({ token: activation.token }))).status, 500, "press");
      same(errors.map(({ reason }) => reason).join(), "ERR_KEY_INVALID,ERR_KEY_INVALID", "reports");
    },
  ];
  yield* failingCallbacks(subject);
}

/**
 * A promise that is rejected while nobody waits for it ends a process of Node or Deno, and with it
 * the suite.
 */
function* failingCallbacks(subject) {
  const FAILING = {
    "that throws": () => {
      throw new Error("no connection");
    },
    "whose promise is rejected": async () => {
      throw new Error("no connection");
    },
    "whose promise is rejected later": () =>
      new Promise((_, reject) => setTimeout(reject, 1, new Error("no connection"))),
    "whose promise cannot be read": () => {
      const unreadable = () => {
        throw new Error("no connection");
      };
      return new Proxy({}, { get: unreadable });
    },
  };
  for (const [how, failing] of Object.entries(FAILING)) {
    const later = () => new Promise((resolve) => setTimeout(resolve, 20));
    yield [
      `a function onError ${how} changes no answer`,
      async () => {
        const { make, open, press, activation, answers } = scene(subject);
        const { token } = activation;
        answers.now = new Error("no connection");
        const handle = make({ onError: failing, pages: { invalid: failing } });
        same((await handle(press({ token }))).status, 503, "what redeem threw");
        same((await handle(open(altered(token)))).status, 403, "what a page threw");
        await later();
        answers.now = "ok";
        same((await handle(press({ token }))).status, 200, "afterwards");
      },
    ];
    yield [
      `a function waitUntil ${how} changes no answer and is reported`,
      async () => {
        const { make, press, activation, errors } = scene(subject);
        const { status } = await make()(press({ token: activation.token }), { waitUntil: failing });
        await later();
        same(`${status} ${errors.length}`, "200 1", "status, and reports");
      },
    ];
    yield [
      `functions for keys and a clock ${how} are the site's problem, and nothing is used`,
      async () => {
        const { make, open, press, activation, asked, errors } = scene(subject);
        const { token, key } = activation;
        for (const given of [{ keys: failing }, { keys: key, clock: failing }]) {
          const verifier = subject.createVerifier({ ...given, ...subject.options });
          const handle = make({ verifier, store: untouchedStore() });
          same((await handle(open(token))).status, 500, "open");
          same((await handle(press({ token }))).status, 500, "press");
        }
        const handle = make({ publicKeys: failing });
        same((await handle(new Request(`${SITE}/activate`))).status, 500, "publicKeys");
        await later();
        same(`${errors.length} ${asked.length}`, "5 0", "reports, and calls of redeem");
      },
    ];
  }
}
