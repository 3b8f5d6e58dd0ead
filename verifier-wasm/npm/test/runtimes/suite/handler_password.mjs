// The page for a new password: what shape a password has, who gets it, and that nothing of a code
// is told by it.

import { holds, same } from "./expect.mjs";
import { BUTTONS } from "./handler_languages.mjs";
import { read, scene, withoutNonce } from "./handler_scene.mjs";
import { untouchedStore } from "./stores.mjs";

const path = "/recover";
const LONG = "correct horse battery";

/** Passwords, and whether the default shape takes them. */
const SHAPES = [
  ["fifteen characters", "a".repeat(15), true],
  ["one fewer", "a".repeat(14), false],
  ["none", "", false],
  ["as many as there may be", "a".repeat(256), true],
  ["one more", "a".repeat(257), false],
  ["blanks", " ".repeat(15), true],
  ["signs of four bytes are one character each", "😀".repeat(14), false],
  ["fifteen of them", "😀".repeat(15), true],
  ["256 of them", "😀".repeat(256), true],
  ["letters and their marks are counted together", "e\u0301".repeat(14), false],
  ["fifteen of both", "e\u0301".repeat(15), true],
  ["a NUL, where hash functions end", `${LONG}\0`, false],
  ["a line break, which no field has", `${LONG}\n`, false],
];

export function* handlerPassword(subject) {
  yield* pages(subject);
  yield* judging(subject);
  yield* passing(subject);
  yield* options(subject);
}

function* pages(subject) {
  yield [
    "a page asks for a new password where its action does, in every language",
    async () => {
      const { make, open, recovery, activation } = scene(subject);
      const handle = make({ password: {} });
      const hints = new Set();
      for (const language of Object.keys(BUTTONS)) {
        const headers = { "Accept-Language": language };
        const page = await read(await handle(open(recovery.token, { path, headers })));
        const [, hint] = /<small id="password-hint">([^<]*)<\/small>/.exec(page.text) ?? [];
        holds(hint?.includes("15") && !hint.includes("{"), hint);
        hints.add(hint);
        const field = /<input id="password" [^>]*>/.exec(page.text)[0];
        for (const attribute of [
          'name="password"',
          'type="password"',
          'autocomplete="new-password"',
          'minlength="15"',
          'spellcheck="false"',
          'aria-describedby="password-hint"',
          " required",
        ])
          holds(field.includes(attribute), `${attribute} in ${field}`);
        holds(!field.includes("maxlength"), "what is pasted is not cut");
        holds(
          page.text.indexOf('id="code"') < page.text.indexOf('id="password"'),
          "the code comes first",
        );
      }
      same(hints.size, Object.keys(BUTTONS).length, "languages");
      const other = await read(await handle(open(activation.token)));
      holds(!/password/.test(other.text), "another action asks for none");
      const none = await read(await make()(open(recovery.token, { path })));
      holds(!/password/.test(none.text), "nor does any without the option");
    },
  ];
  yield [
    "pages of one's own and those of a framework get the field, too",
    async () => {
      const { make, open, recovery, activation, press } = scene(subject);
      const own = make({
        password: { minLength: 8, maxLength: 64 },
        pages: { form: "<main>{{form}}</main>" },
        texts: { en: { password: { label: "Secret <word>" } } },
      });
      const page = await read(await own(open(recovery.token, { path })));
      holds(page.text.includes(">Secret &#60;word&#62;</label>"), page.text);
      holds(page.text.includes('minlength="8"'), page.text);
      const { password } = await own.judge(
        press({ token: recovery.token, code: recovery.code, password: "short" }, { path }),
      );
      same(
        JSON.stringify(password),
        JSON.stringify({
          label: "Secret <word>",
          hint: "At least 8 characters. Several words in a row are a good choice.",
          show: "Show the password",
          minLength: 8,
          maxLength: 64,
        }),
        "what a judgement says of the field",
      );
      same((await own.judge(open(activation.token))).password, undefined, "of another action");
      const done = await own.judge(
        press({ token: recovery.token, code: recovery.code, password: LONG }, { path }),
      );
      same(`${done.page} ${done.password}`, "done undefined", "once it is done");
    },
  ];
}

function* judging(subject) {
  yield [
    "a password is judged before a code, and the answer tells nothing of one",
    async () => {
      const { make, press, recovery, asked } = scene(subject);
      const strict = make({
        password: {},
        store: untouchedStore(),
        check() {
          throw new Error("the check was asked");
        },
      });
      const texts = new Set();
      for (const code of [recovery.code, recovery.wrongCode, "12", ""]) {
        const fields = { token: recovery.token, code, password: "hunter2 hunter" };
        const page = await read(await strict(press(fields, { path })));
        same(page.status, 422, "status");
        holds(page.text.includes("<h1>Choose another password</h1>"), page.text);
        holds(page.text.includes('role="alert">A password needs 15 to 256 characters.'), page.text);
        holds(!page.text.includes("hunter2"), "the password is not reflected");
        same([...page.text.matchAll(/aria-invalid/g)].length, 1, "fields that are wrong");
        texts.add(withoutNonce(page.text));
      }
      same(texts.size, 1, "answers");
      const forged = await read(
        await strict(press({ token: "x", code: "12345", password: "" }, { path })),
      );
      same(forged.status, 403, "a link that is none is refused first");
      same(asked.length, 0, "calls of redeem");
    },
  ];
  yield [
    "a password has so many code points of its normal form, whatever they are",
    async () => {
      for (const [name, password, isTaken] of SHAPES) {
        const { make, press, recovery, asked } = scene(subject);
        const fields = { token: recovery.token, code: recovery.code, password };
        const { status } = await make({ password: {} })(press(fields, { path }));
        same(status, isTaken ? 200 : 422, name);
        same(asked.length, isTaken ? 1 : 0, `${name}: calls of redeem`);
      }
      const { make, press, recovery } = scene(subject);
      const handle = make({ password: {}, store: untouchedStore() });
      const twice = new URLSearchParams({ token: recovery.token, code: recovery.code });
      for (const password of [LONG, LONG]) twice.append("password", password);
      same((await handle(press(twice, { path }))).status, 422, "two of them");
      const bytes = `token=${recovery.token}&code=${recovery.code}&password=${"a".repeat(20)}%ff`;
      same((await handle(press({}, { path, body: bytes }))).status, 422, "what is no UTF-8");
      same(
        (await handle(press({ token: recovery.token, code: recovery.code }, { path }))).status,
        422,
        "a form without the field",
      );
    },
  ];
  yield [
    "a short password counts no try, and the right one comes through afterwards",
    async () => {
      const { make, press, recovery, asked } = scene(subject);
      const handle = make({ password: {} });
      const fields = { token: recovery.token, code: recovery.code };
      for (let time = 0; time < 30; time += 1)
        await handle(press({ ...fields, password: "short" }, { path }));
      same((await handle(press({ ...fields, password: LONG }, { path }))).status, 200, "status");
      same(asked.length, 1, "calls of redeem");
    },
  ];
}

function* passing(subject) {
  yield [
    "redeem gets the password in its normal form, in the fields alone",
    async () => {
      const { make, press, recovery, asked } = scene(subject);
      const seen = [];
      const handle = make({
        password: {},
        check: ({ fields }) => void seen.push(fields.get("password")),
      });
      const typed = `${LONG} e\u0301`;
      await handle(
        press({ token: recovery.token, code: recovery.code, password: typed }, { path }),
      );
      same(asked[0].fields.get("password"), `${LONG} \u00e9`, "the field");
      same(seen.join(), `${LONG} \u00e9`, "that of the check");
      same(JSON.stringify(asked[0]), "{}", "what is shown of the link");
    },
  ];
  yield [
    "a password is in no page, no header and no line of the log, in either form",
    async () => {
      const { make, press, recovery, answers } = scene(subject);
      const said = [];
      const { error } = console;
      console.error = (...text) => said.push(text.join(" "));
      try {
        for (const password of [LONG, `${LONG} e\u0301`]) {
          const handle = make({ password: {}, onError: undefined });
          answers.judge = ({ fields }) => {
            throw new Error(`no user has ${fields.get("password")} as a password`);
          };
          const fields = { token: recovery.token, code: recovery.code, password };
          const page = await read(await handle(press(fields, { path })));
          same(page.status, 503, "status");
          const shown = page.text + [...page.headers].join();
          holds(!shown.normalize("NFC").includes("horse"), "the page");
        }
      } finally {
        console.error = error;
      }
      same(said.length, 2, "lines of the log");
      holds(!/horse|battery/.test(said.join()), said.join());
    },
  ];
}

function* options(subject) {
  yield [
    "the option password takes what NIST allows, and nothing else",
    async () => {
      const { make, press, activation } = scene(subject);
      for (const password of [
        { minLength: 7 },
        { minLength: 15.5 },
        { minLength: "15" },
        { minLength: Number.NaN },
        { maxLength: 63 },
        { maxLength: 1_025 },
        { minLength: 100, maxLength: 64 },
        { actions: [] },
        { actions: "recover" },
        { actions: [1] },
        { actions: [""] },
        { least: 15 },
        true,
        15,
        null,
      ]) {
        let thrown;
        try {
          make({ password });
        } catch (error) {
          thrown = error;
        }
        same(thrown?.reason, "ERR_INVALID_ARGUMENT", JSON.stringify(password));
      }
      const handle = make({
        password: { actions: ["activate"], minLength: 8, maxLength: 1_024 },
      });
      const asking = await handle(press({ token: activation.token }));
      same(asking.status, 422, "another action may ask for one");
      const password = "😀".repeat(1_024);
      same(
        (await handle(press({ token: activation.token, password }))).status,
        200,
        "the longest one fits into a form",
      );
    },
  ];
}
