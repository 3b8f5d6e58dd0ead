// Links that are bound to a browser, opened in it and elsewhere, by persons and by scanners.

import { noNonces, scene as sceneOfBrowsers } from "./browsers.mjs";
import { holds, same } from "./expect.mjs";
import { BROWSER, CODE, sceneOfBound } from "./handler_bound_scene.mjs";
import { SITE, read, scene } from "./handler_scene.mjs";

export function* handlerBound(subject) {
  yield* theSameBrowser(subject);
  yield* otherBrowsers(subject);
}

function* theSameBrowser(subject) {
  yield [
    "the browser that asked for a link needs one press, " +
      "and the application learns that it is that one",
    async () => {
      const { openAs, pressAs, cookies, asked } = sceneOfBound(subject);
      const page = await read(await openAs(cookies.same));
      same(page.status, 200, "open");
      holds(
        !page.text.includes('name="code"') && page.headers.get("Set-Cookie") === null,
        page.text,
      );
      same((await pressAs(cookies.same)).status, 200, "press");
      const [{ bindingIsProven, codeIsProven, code }] = asked;
      same(
        `${bindingIsProven} ${codeIsProven} ${code}`,
        "true false undefined",
        "what is passed on",
      );
    },
  ];
  yield [
    "in the right browser, too, an action with a code needs it",
    async () => {
      const { openAs, pressAs, cookies, code, asked } = sceneOfBound(subject, "recover");
      holds((await read(await openAs(cookies.same))).text.includes('name="code"'), "the field");
      same((await pressAs(cookies.same)).status, 422, "without the code");
      same((await pressAs(cookies.same, undefined, code)).status, 200, "with it");
      same(
        `${asked[0].bindingIsProven} ${asked[0].codeIsProven}`,
        "true true",
        "what is passed on",
      );
    },
  ];
  yield [
    "a link that is not bound ignores the browser, and proves none",
    async () => {
      const { twin, handle, cookies, asked } = sceneOfBound(subject);
      const { open, press } = scene(subject);
      const headers = { Cookie: cookies.other };
      const page = await read(await handle(open(twin, { headers })));
      holds(!page.text.includes('name="code"'), page.text);
      same((await handle(press({ token: twin }, { headers }))).status, 200, "press");
      same(asked[0].bindingIsProven, false, "bindingIsProven");
    },
  ];
}

function* otherBrowsers(subject) {
  const { publicEntry } = subject;
  yield [
    "whatever is no nonce is another browser: the page asks for the code, " +
      "and pressing uses nothing",
    async () => {
      const { nonce } = sceneOfBrowsers(subject, "activate");
      const texts = noNonces(nonce).filter(
        ([what, value]) =>
          typeof value === "string" &&
          !/NUL|two bytes|42 characters|surrogate|script|megabyte/.test(what),
      );
      const headers = [
        "",
        `${BROWSER}=${nonce}; ${BROWSER}=${nonce}`,
        `${BROWSER}=${nonce};${BROWSER}=x`,
        `mailroom-browser=${nonce}`,
        `x${BROWSER}=${nonce}`,
        `${BROWSER}\t=${nonce}`,
        `${BROWSER.toLowerCase()}=${nonce}`,
        `a="; ${BROWSER}=${nonce}x"`,
        ...texts
          .filter(([what]) => what !== "a space behind it")
          .map(([, text]) => `${BROWSER}=${text}`),
      ];
      for (const header of headers) {
        const { openAs, pressAs, asked } = sceneOfBound(subject);
        const page = await read(await openAs(header));
        same(page.status, 200, header);
        holds(
          page.text.includes('name="browser_code"') &&
            !page.text.includes('name="code"') &&
            page.text.includes("in another browser"),
          page.text,
        );
        same((await pressAs(header)).status, 422, header);
        same(asked.length, 0, "calls of redeem");
      }
    },
  ];
  yield [
    "elsewhere the database judges the code, and the link is used once",
    async () => {
      const { pressAs, cookies, asked, judged, errors } = sceneOfBound(subject);
      judged();
      for (const code of ["", "1234", "123456", "12 34", "1234x", undefined]) {
        const page = await read(await pressAs(cookies.other, code));
        same(page.status, 422, `the code ${code}`);
        // Where the form was not shown yet, nothing is missing in it.
        same(page.text.includes('<p role="alert"'), code !== undefined, `what is said of ${code}`);
      }
      same(asked.length, 0, "calls of redeem for what is no code");
      const wrong = await read(await pressAs(cookies.other, "00000"));
      same(wrong.status, 422, "a wrong code");
      holds(
        wrong.text.includes("That is not the code") && wrong.text.includes('name="browser_code"'),
        wrong.text,
      );
      same((await pressAs(cookies.none, CODE)).status, 200, "the right one");
      const [, { code, browserCode, bindingIsProven, codeIsProven }] = asked;
      same(
        `${code} ${browserCode} ${bindingIsProven} ${codeIsProven}`,
        `undefined ${CODE} false false`,
        "passed on",
      );
      same((await pressAs(cookies.same)).status, 409, "in the right browser after that");
      same((await pressAs(cookies.other, CODE)).status, 409, "elsewhere after that");
      same(asked.length, 2, "calls of redeem");
      same(errors.length, 0, "reports");
    },
  ];
  yield [
    "an action with a code needs that and the digits of the other browser: " +
      "one verdict, and one attempt",
    async () => {
      for (const version of publicEntry === undefined ? [2] : [2, 3]) {
        const {
          openAs,
          pressAs,
          cookies,
          visitor,
          code: covered,
          asked,
          judged,
        } = sceneOfBound(subject, "recover", version);
        const code = covered ?? "04711";
        const wrong = code === "00000" ? "11111" : "00000";
        judged(code);
        const page = await read(await openAs(cookies.other));
        holds(
          page.text.includes('name="code"') && page.text.includes('name="browser_code"'),
          page.text,
        );
        holds(page.text.includes("Type the code, and the 5 digits that you see there"), page.text);
        for (const given of [
          [undefined, code],
          [CODE, undefined],
          [CODE, "1"],
          ["1", code],
        ]) {
          const missing = await read(await pressAs(visitor(1), ...given));
          same(missing.status, 422, "one of them is missing");
        }
        same(asked.length, 0, "calls of redeem");
        const texts = [];
        for (const given of [
          [CODE, wrong],
          ["00000", code],
        ]) {
          const answer = await read(await pressAs(visitor(1), ...given));
          same(answer.status, 422, "one of them is wrong");
          holds(
            answer.text.includes("Compare the code and the digits of the other browser"),
            answer.text,
          );
          texts.push(answer.text.replace(/nonce="[^"]+"|mailroom-visitor=\w+/g, ""));
        }
        same(texts[0], texts[1], "which of them is not said");
        same((await pressAs(visitor(1), "00000", wrong)).status, 422, "the third try");
        same((await pressAs(visitor(1), CODE, code)).status, 429, "the fourth");
        same((await pressAs(visitor(2), CODE, code)).status, 200, "both, of another visitor");
        const { code: given, browserCode, bindingIsProven, codeIsProven } = asked.at(-1);
        same(
          `${given} ${browserCode} ${bindingIsProven}`,
          `${code} ${CODE} false`,
          "what is passed on",
        );
        same(codeIsProven, version === 2, "whether the link covers the code");
      }
    },
  ];
  yield [
    "a code that the link covers is judged before the database is asked",
    async () => {
      const { pressAs, cookies, code, asked } = sceneOfBound(subject, "recover");
      same(
        (await pressAs(cookies.other, CODE, code === "00000" ? "11111" : "00000")).status,
        422,
        "a wrong code",
      );
      same(asked.length, 0, "calls of redeem");
    },
  ];
  yield [
    "a used link is used elsewhere as well, and nobody is asked",
    async () => {
      for (const action of ["activate", "recover"]) {
        const { pressAs, cookies, code, asked } = sceneOfBound(subject, action);
        same((await pressAs(cookies.same, undefined, code)).status, 200, "in the right browser");
        for (let time = 0; time < 3; time += 1)
          same((await pressAs(cookies.other, CODE, code)).status, 409, "elsewhere");
        same(asked.length, 1, "calls of redeem");
      }
    },
  ];
  yield [
    "of ten presses at once elsewhere one has an effect, whatever the application says",
    async () => {
      for (const as of [() => "a=b", (visitor, press) => visitor(press)]) {
        const { pressAs, cookies, visitor, asked, answers } = sceneOfBound(subject);
        answers.judge = async () => {
          for (let turn = 0; turn < 50; turn += 1) await undefined;
          return "ok";
        };
        const presses = Array.from({ length: 10 }, (_, press) => pressAs(as(visitor, press), CODE));
        const statuses = (await Promise.all(presses)).map(({ status }) => status);
        same(asked.length, 1, "calls of redeem");
        same(statuses.filter((status) => status === 200).length, 1, "winners");
        same((await pressAs(cookies.same)).status, 409, "in the right browser after that");
      }
    },
  ];
  yield [
    "while the database judges a guess, the browser that asked reads try again, " +
      "never that the link was used",
    async () => {
      for (const [verdict, status, after] of [
        ["wrong_code", 422, 200],
        ["away", 503, 200],
        ["ok", 200, 409],
      ]) {
        const { pressAs, cookies, answers, asked } = sceneOfBound(subject);
        let end;
        const gate = new Promise((resolve) => (end = resolve));
        answers.judge = ({ bindingIsProven }) => (bindingIsProven ? "ok" : gate);
        const guess = pressAs(cookies.other, "00000");
        for (let turn = 0; asked.length === 0 && turn < 60_000; turn += 1)
          await new Promise((turn) => setTimeout(turn, 1));
        for (let time = 0; time < 3; time += 1) {
          const meanwhile = await read(await pressAs(cookies.same));
          same(meanwhile.status, 503, "the right browser");
          holds(
            /Try again/.test(meanwhile.text) &&
              !/already used|Nothing was done/.test(meanwhile.text),
            meanwhile.text,
          );
        }
        same((await pressAs("a=b", CODE)).status, 503, "a third browser");
        end(verdict);
        same((await guess).status, status, "the guess");
        same((await pressAs(cookies.same)).status, after, "the right browser afterwards");
      }
    },
  ];
  yield [
    "after a process ended while it used a link elsewhere, nobody reads try again for ever",
    async () => {
      const { pressAs, cookies, answers, asked } = sceneOfBound(subject);
      answers.judge = ({ bindingIsProven }) => (bindingIsProven ? "ok" : new Promise(() => {}));
      const { now } = Date;
      try {
        let later = 0;
        Date.now = () => now() + later;
        pressAs(cookies.other, CODE);
        for (let turn = 0; asked.length === 0 && turn < 60_000; turn += 1)
          await new Promise((turn) => setTimeout(turn, 1));
        const statuses = [];
        for (let minute = 0; minute < 60; minute += 1) {
          later = minute * 60_000;
          for (let time = 0; time < 3; time += 1)
            statuses.push((await pressAs(cookies.same)).status);
        }
        const [open, used] = [503, 409].map((wanted) => statuses.indexOf(wanted));
        same(`${open} ${statuses.at(-1)}`, "0 409", "the first press and the last one");
        holds(used >= 3 && used <= 33 && !statuses.slice(used).includes(503), statuses.join());
      } finally {
        Date.now = now;
      }
      same(asked.length, 1, "calls of redeem");
    },
  ];
  yield [
    "as data, and without script, the form of another browser is the same",
    async () => {
      const { token, handle, cookies } = sceneOfBound(subject);
      const address = `${SITE}/activate?script=no&token=${token}`;
      const moved = await handle(new Request(address, { headers: { Cookie: cookies.other } }));
      const [cookie] = moved.headers.get("Set-Cookie").split(";");
      const there = new Request(new URL(moved.headers.get("Location"), address), {
        headers: { Cookie: `${cookie}; ${cookies.other}` },
      });
      const page = await read(await handle(there.clone()));
      holds(
        page.text.includes('name="browser_code"') && page.text.includes("in another browser"),
        page.text,
      );
      const set = page.headers.getSetCookie();
      same(set.map((text) => text.split("=")[0]).join(), "mailroom-visitor", "cookies");
      const judged = await handle.judge(there);
      const digits = `${judged.codeDigits} ${judged.browserCodeDigits}`;
      same(`${judged.page} ${judged.browser} ${digits}`, "form other 0 5", "as data");
    },
  ];
}
