// A new link in place of one that has expired, was used or is locked: asked for by its token, which
// is looked at as that of any link, and answered alike in every case.

import { scene as sceneOfBrowsers } from "./browsers.mjs";
import { holds, same } from "./expect.mjs";
import { read, scene, withoutNonce } from "./handler_scene.mjs";
import { altered, hex } from "./tokens.mjs";

const BUTTON = '<button name="renew" value="yes">Send a new link</button>';

/** A scene whose links have expired, and what was asked for. */
function late(subject) {
  const found = scene(subject);
  const renewed = [];
  const verifier = subject.createVerifier({
    keys: found.activation.key,
    clock: () => found.activation.expiresAt + 100,
    ...subject.options,
  });
  const renewLink = (link) => void renewed.push(link);
  return {
    ...found,
    renewed,
    make: (more = {}) => found.make({ verifier, renewLink, ...more }),
    makeInTime: (more = {}) => found.make({ renewLink, ...more }),
  };
}

export function* handlerRenew(subject) {
  yield [
    "the pages of expired, used and locked links have a button for a new one, and no other page",
    async () => {
      const { make, makeInTime, open, press, recover, activation, recovery, renewed } =
        late(subject);
      const expired = await read(await make()(open(activation.token)));
      same(expired.status, 410, "status");
      holds(expired.text.includes(BUTTON), expired.text);
      holds(expired.text.includes(`name="token" value="${activation.token}"`), expired.text);
      holds(expired.text.includes('<form method="post" action="?">'), expired.text);
      const handle = makeInTime();
      const done = await read(await handle(press({ token: activation.token })));
      holds(!done.text.includes(BUTTON), "done");
      const used = await read(await handle(press({ token: activation.token })));
      holds(used.status === 409 && used.text.includes(BUTTON), used.text);
      for (let time = 0; time < 5; time += 1) await handle(recover(recovery.wrongCode));
      const locked = await read(await handle(recover(recovery.code)));
      holds(locked.status === 429 && locked.text.includes(BUTTON), locked.text);
      const form = await read(await handle(open(recovery.token, { path: "/recover" })));
      holds(!form.text.includes(BUTTON), "a form");
      const invalid = await read(await make()(open(altered(activation.token))));
      holds(!invalid.text.includes(BUTTON), "a link that is not valid");
      const without = await read(await make({ renewLink: undefined })(open(activation.token)));
      holds(!without.text.includes(BUTTON), "without the option");
      same(renewed.length, 0, "links that were asked for");
    },
  ];
  yield [
    "the button asks for a new link by the secret, and the answer is the same in every case",
    async () => {
      const { make, press, activation, recovery, renewed, errors, asked } = late(subject);
      const texts = new Set();
      for (const answer of [undefined, null, true, "ok", Promise.resolve(7), { again: "no" }]) {
        const handle = make({
          renewLink(link) {
            renewed.push(link);
            return answer;
          },
        });
        const page = await read(await handle(press({ token: activation.token, renew: "yes" })));
        same(page.status, 202, "status");
        holds(page.text.includes("<h1>Check your email</h1>"), page.text);
        holds(page.text.includes("If a new link can be sent, it is on its way."), page.text);
        holds(!page.text.includes(activation.token), "the token is gone");
        texts.add(withoutNonce(page.text));
      }
      same(texts.size, 1, "answers");
      const path = "/recover";
      await make()(press({ token: recovery.token, code: "x", renew: "" }, { path }));
      for (const [at, { action, secret }] of renewed.entries()) {
        const expected = at < 6 ? activation : recovery;
        same(action, at < 6 ? "activate" : "recover", "action");
        same(hex(secret), expected.secret, "secret");
      }
      same(renewed.length, 7, "links that were asked for");
      same(`${errors.length} ${asked.length}`, "0 0", "reports, and calls of redeem");
      const judged = await make().judge(press({ token: activation.token, renew: "yes" }));
      same(`${judged.page} ${judged.status} ${judged.renew}`, "renewed 202 undefined", "as data");
    },
  ];
  yield [
    "a bound link is renewed from any browser, by the secret behind its binding",
    async () => {
      for (const version of [2, 3]) {
        const { make, press, renewed } = late(subject);
        const { token, twin, verifier } = sceneOfBrowsers(subject, "activate", version);
        const { secret } = verifier.verify(twin, { action: "activate" });
        const handle = make({ verifier, action: "activate" });
        same((await handle(press({ token, renew: "yes" }))).status, 202, "status");
        same(hex(renewed[0].secret), hex(secret), "secret");
      }
    },
  ];
  yield [
    "what was not signed, another site's form and a GET ask for nothing",
    async () => {
      const { make, press, open, activation, renewed } = late(subject);
      const handle = make();
      const renew = "yes";
      same(
        (await handle(press({ token: altered(activation.token), renew }))).status,
        403,
        "forged",
      );
      same((await handle(press({ token: "x", renew }))).status, 403, "no token");
      same((await handle(press({ renew }))).status, 400, "without a token");
      same(
        (await handle(press({ token: activation.token, renew }, { path: "/recover" }))).status,
        403,
        "of another action",
      );
      const headers = { Origin: "https://evil.example" };
      same(
        (await handle(press({ token: activation.token, renew }, { headers }))).status,
        403,
        "another site's",
      );
      const read = open(activation.token);
      await handle(new Request(`${read.url}&renew=yes`));
      same(
        (await make({ renewLink: undefined })(press({ token: activation.token, renew }))).status,
        400,
        "without the option",
      );
      same(renewed.length, 0, "links that were asked for");
    },
  ];
  yield [
    "a database that is away says to try again, with the button",
    async () => {
      const { make, press, activation, errors } = late(subject);
      for (const renewLink of [
        () => {
          throw new Error("no connection");
        },
        async () => Promise.reject(new Error("no connection")),
      ]) {
        const handle = make({ renewLink });
        const page = await read(await handle(press({ token: activation.token, renew: "yes" })));
        same(page.status, 503, "status");
        holds(page.text.includes("<h1>Try again in a moment</h1>"), page.text);
        holds(page.text.includes("Ask for a new link.") && page.text.includes(BUTTON), page.text);
      }
      same(errors.length, 2, "reports");
      for (const renewLink of [null, "yes", {}, 7]) {
        let thrown;
        try {
          make({ renewLink });
        } catch (error) {
          thrown = error;
        }
        same(thrown?.reason, "ERR_INVALID_ARGUMENT", String(renewLink));
      }
    },
  ];
}
