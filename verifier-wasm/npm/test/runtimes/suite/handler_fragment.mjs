// Links whose token is behind `#`: no request has it until the page sends it in a body.

import { holds, same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { SITE, read, scene } from "./handler_scene.mjs";
import { untouchedStore } from "./stores.mjs";
import { altered, v3Pair } from "./tokens.mjs";

export function* handlerFragment(subject) {
  const { vectors3, publicEntry } = subject;
  if (publicEntry === undefined) return;
  const { activation, recovery } = v3Pair(vectors3);
  const key = text(activation.publicKey);
  const clock = () => activation.now;
  const sceneOfThird = (more) => {
    const { make, ...rest } = scene(subject);
    const verifier = publicEntry.createVerifier({ keys: key, clock });
    return { handle: make({ verifier, publicKeys: key, checkCode: () => true, ...more }), ...rest };
  };
  const bare = (language = "en") =>
    new Request(`${SITE}/activate?next=1`, { headers: { "Accept-Language": language } });

  yield [
    "an address without a token gives the page that reads it, " +
      "with its keys and policy and no other text",
    async () => {
      const { handle } = sceneOfThird();
      const page = await read(await handle(bare()));
      same(page.status, 200, "status");
      const [, nonce] = /script-src 'nonce-([0-9a-f]{32})';/.exec(
        page.headers.get("Content-Security-Policy"),
      );
      holds(
        page.text.includes(
          `<head>\n<meta charset="utf-8">\n<script nonce="${nonce}" data-cfasync="false">{`,
        ) && page.text.includes("location.hash.replace(/^#("),
        page.text,
      );
      same([...page.text.matchAll(/<script/g)].length, 1, "scripts");
      holds(page.text.includes(`["${key.slice(5)}"]`), "the key");
      holds(page.text.includes("<noscript><h1>Allow scripts"), page.text);
      for (const [name, value] of Object.entries({
        "Cache-Control": "no-store",
        "Referrer-Policy": "strict-origin",
        "Content-Type": "text/html; charset=utf-8",
      })) {
        same(page.headers.get(name), value, name);
      }
      const german = await read(await handle(bare("de")));
      holds(german.text.includes("Erlauben Sie Skripte"), german.text);
    },
  ];
  yield [
    "its form shows what a link in an address shows, and uses and counts nothing",
    async () => {
      const { handle, press, asked } = sceneOfThird({ store: untouchedStore() });
      for (const [link, path, field] of [
        [activation, "/activate", false],
        [recovery, "/recover", true],
      ]) {
        const page = await read(await handle(press({ show: "yes", token: link.token }, { path })));
        same(page.status, 200, path);
        holds(page.text.includes(`name="token" value="${link.token}"`), page.text);
        holds(
          !page.text.includes('name="show"') && page.text.includes('name="code"') === field,
          page.text,
        );
        holds(!page.text.includes("http-equiv"), "a redirect");
      }
      for (const token of [altered(activation.token), "", "x", recovery.token]) {
        same(
          (await handle(press({ show: "yes", token, code: "12345" }))).status,
          403,
          token.slice(0, 9),
        );
      }
      const elsewhere = press(
        { show: "yes", token: activation.token },
        { headers: { Origin: "https://evil.example" } },
      );
      same((await handle(elsewhere)).status, 403, "another site's form");
      same((await handle(press({ show: "yes" }))).status, 400, "no token");
      same(asked.length, 0, "calls of redeem");
    },
  ];
  yield [
    "what the form shows is used by its button, once",
    async () => {
      const { handle, press, asked } = sceneOfThird();
      same((await handle(press({ show: "yes", token: activation.token }))).status, 200, "open");
      same((await handle(press({ token: activation.token }))).status, 200, "press");
      same((await handle(press({ token: activation.token }))).status, 409, "again");
      same(asked.length, 1, "calls of redeem");
    },
  ];
  yield [
    "as data, the page that reads the token is a response, and the form has it without a redirect",
    async () => {
      const { handle, press } = sceneOfThird();
      const opening = await handle.judge(bare());
      same(
        `${opening.page} ${opening.status} ${opening.response.status}`,
        "response 200 200",
        "opening",
      );
      holds((await opening.response.text()).includes(`nonce="${opening.nonce}"`), "its nonce");
      const shown = await handle.judge(press({ show: "yes", token: activation.token }));
      same(
        `${shown.page} ${shown.status} ${shown.token}`,
        `form 200 ${activation.token}`,
        "the form",
      );
    },
  ];
  yield [
    "without keys there is no such page, and keys that are none are said to be so",
    async () => {
      const { make } = scene(subject);
      same((await make()(bare())).status, 400, "without the option");
      const { handle, errors } = sceneOfThird({ publicKeys: () => undefined });
      same((await handle(bare())).status, 500, "a function without keys");
      same(errors[0].reason, "ERR_INVALID_ARGUMENT", "what is reported");
      same(
        (await sceneOfThird({ publicKeys: () => [key, key] }).handle(bare())).status,
        200,
        "a function",
      );
      for (const publicKeys of [
        "",
        "x",
        activation.publicKey,
        `${key}A`,
        `${key}"`,
        [],
        [key, ""],
        [[key]],
        1,
        {},
        null,
      ]) {
        let reason = "none";
        try {
          sceneOfThird({ publicKeys });
        } catch (error) {
          reason = error.reason;
        }
        same(reason, "ERR_INVALID_ARGUMENT", String(publicKeys));
      }
    },
  ];
}
