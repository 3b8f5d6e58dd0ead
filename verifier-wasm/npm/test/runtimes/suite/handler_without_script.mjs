// What is answered to a browser that says, by a field of its form, that it runs no script.

import { holds, same } from "./expect.mjs";
import { read, scene, SITE } from "./handler_scene.mjs";

const path = "/recover";

/** The cookie of a link that an answer sets, name and value. */
const cookieOf = ({ headers }) => /^(mailroom-link-[^;]*);/.exec(headers.get("Set-Cookie"))?.[1];

export function* handlerWithoutScript(subject) {
  yield [
    "a browser without script is led away from the answer to a wrong code, " +
      "so that a reload sends none again",
    async () => {
      const { make, open, press, recovery, asked } = scene(subject);
      const { token, code, wrongCode } = recovery;
      const handle = make();
      const field = /<noscript><input type="hidden" name="script" value="no"><\/noscript>/;
      const form = await read(await handle(open(token, { path })));
      holds(field.test(form.text), form.text);
      const send = (typed, Cookie = "") =>
        handle(press({ token, script: "no", code: typed }, { path, headers: { Cookie } }));
      const missing = await send("12");
      same(missing.status, 422, "a code that is cut, which is not counted");
      const led = await send(wrongCode);
      const there = led.headers.get("Location");
      same(`${led.status} ${await led.text()}`, "303 ", "the answer");
      holds(/^\?open=[0-9a-f]{32}-wrong$/.test(there), there);
      const Cookie = cookieOf(led);
      holds(Cookie?.endsWith(`=${token}`), Cookie);
      holds(led.headers.get("Set-Cookie").includes("; Max-Age=60; HttpOnly"), "its life");
      for (let time = 0; time < 10; time += 1) {
        const request = new Request(SITE + path + there, { headers: { Cookie } });
        const { status, text } = await read(await handle(request));
        same(status, 422, "a reload");
        holds(text.includes("That is not the code") && text.includes('aria-invalid="true"'), text);
        holds(text.includes(`value="${token}"`) && text.includes('action="?"'), "its form");
      }
      const lost = await handle(new Request(SITE + path + there));
      same(lost.status, 400, "without the cookie");
      const done = await send(code, Cookie);
      same(done.status, 200, "the right code");
      same(cookieOf(done), Cookie.replace(token, ""), "which ends the cookie");
      same(String(asked[0].fields), `${new URLSearchParams({ token, code })}`, "the fields");
    },
  ];
  yield [
    "so is one whose code only the database can judge, five times; with script nobody is",
    async () => {
      const { make, press, recovery, answers } = scene(subject);
      const { token, code } = recovery;
      const handle = make();
      answers.now = "wrong_code";
      const send = (more) => handle(press({ token, code, ...more }, { path }));
      same((await send({})).status, 422, "with script");
      same((await send({ script: "yes" })).status, 422, "a field of the application's own");
      for (let time = 0; time < 3; time += 1)
        same((await send({ script: "no" })).status, 303, "without script");
      same((await send({ script: "no" })).status, 429, "after five");
      const { judge } = make();
      const led = await judge(press({ token, code, script: "no" }, { path }));
      same(`${led.page} ${led.reason}`, "moved wrong_code", "as data");
    },
  ];
}
