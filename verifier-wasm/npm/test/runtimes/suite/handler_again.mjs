// What the application says about the fields of its own form, and codes as people type them: nobody
// loses the link by it.

import { holds, same } from "./expect.mjs";
import { read, scene } from "./handler_scene.mjs";
import { recordingStore, untouchedStore } from "./stores.mjs";

const path = "/recover";
const SHORT = { again: "Choose a longer <password>." };

export function* handlerAgain(subject) {
  yield [
    "a check of the form's fields comes before the code and the database, " +
      "and uses and counts nothing",
    async () => {
      const { make, press, recovery, asked } = scene(subject);
      const seen = [];
      const check = ({ action, fields, request, ...more }) => {
        seen.push(`${action} ${request.method} ${Object.keys(more)}`);
        return fields.get("password").length < 10 ? SHORT : undefined;
      };
      const strict = make({ check, store: untouchedStore() });
      const fields = (code, password) => ({ token: recovery.token, code, password });
      const texts = new Set();
      for (const code of [
        recovery.code,
        recovery.wrongCode,
        "",
        ...Array.from({ length: 30 }, () => recovery.code),
      ]) {
        const page = await read(await strict(press(fields(code, "short"), { path })));
        same(page.status, 422, "status");
        holds(page.text.includes('role="alert">Choose a longer &#60;password&#62;.'), page.text);
        holds(
          page.text.includes('name="code"') && page.text.includes("<h1>Recover your account"),
          page.text,
        );
        texts.add(page.text.replace(/nonce="\w+"/g, ""));
      }
      same(texts.size, 1, "it is no answer to a code");
      same(
        `${seen[0]} ${asked.length}`,
        "recover POST  0",
        "what the check gets, and calls of redeem",
      );
      same(
        (await strict(press({ ...fields("12345", "short"), token: "x" }, { path }))).status,
        403,
        "a link that is none",
      );
      same(seen.length, 33, "which is not checked");
      const handle = make({ check });
      for (let time = 0; time < 30; time += 1)
        await handle(press(fields(recovery.code, "short"), { path }));
      same(
        (await handle(press(fields(recovery.code, "long enough"), { path }))).status,
        200,
        "afterwards",
      );
    },
  ];
  yield [
    "a check that fails says that nothing was done",
    async () => {
      const { make, press, recovery, asked, errors } = scene(subject);
      for (const check of [
        () => {
          throw new Error("no list of passwords");
        },
        () => true,
        () => ({ again: "" }),
        async () => ({ again: 1 }),
      ]) {
        const handle = make({ check, store: untouchedStore() });
        const page = await read(
          await handle(press({ token: recovery.token, code: recovery.code }, { path })),
        );
        same(page.status, 503, "status");
        holds(page.text.includes("Nothing was done, and your link still works"), page.text);
      }
      same(`${asked.length} ${errors.length}`, "0 4", "calls of redeem, and reports");
    },
  ];
  yield [
    "redeem may ask for the form again: the use is given back, and of a link up to twenty attempts",
    async () => {
      for (const store of [undefined, recordingStore()]) {
        const { make, recover, press, recovery, activation, answers } = scene(subject);
        const handle = make(store && { store });
        answers.now = SHORT;
        for (let time = 0; time < 20; time += 1) {
          const page = await read(await handle(recover(recovery.code)));
          same(page.status, 422, `time ${time}`);
          holds(page.text.includes("Choose a longer &#60;password&#62;."), page.text);
          same(
            (await handle(press({ token: activation.token }))).status,
            422,
            "an action without a code",
          );
        }
        answers.now = "ok";
        same(
          (await handle(press({ token: activation.token }))).status,
          200,
          "the link without a code afterwards",
        );
        answers.now = SHORT;
        const statuses = [];
        for (let time = 0; time < 7; time += 1)
          statuses.push((await handle(recover(recovery.code))).status);
        same(statuses.join(), "422,422,422,422,422,429,429", "after twenty they count");
      }
      const { make, recover, recovery, answers } = scene(subject);
      const handle = make();
      answers.now = SHORT;
      for (let time = 0; time < 20; time += 1) await handle(recover(recovery.code));
      answers.now = "ok";
      same((await handle(recover(recovery.code))).status, 200, "the link with a code after twenty");
      same((await handle(recover(recovery.code))).status, 409, "once");
    },
  ];
  yield [
    "wrong codes count beside it",
    async () => {
      const { make, recover, recovery, answers } = scene(subject);
      const handle = make();
      answers.now = SHORT;
      const statuses = [];
      for (let time = 0; time < 6; time += 1) {
        statuses.push((await handle(recover(recovery.wrongCode))).status);
        await handle(recover(recovery.code));
      }
      same(statuses.join(), "422,422,422,422,422,429", "statuses");
    },
  ];
  yield [
    "a response of 400 or above gives the use back, and the attempt stays",
    async () => {
      const { make, press, recover, activation, recovery, answers } = scene(subject);
      const handle = make();
      for (const status of [400, 422, 500]) {
        answers.now = new Response("Choose a longer password.", { status });
        const answer = await read(await handle(press({ token: activation.token })));
        same(
          `${answer.status} ${answer.text}`,
          `${status} Choose a longer password.`,
          "the answer",
        );
      }
      answers.now = "ok";
      same((await handle(press({ token: activation.token }))).status, 200, "afterwards");
      answers.judge = () => new Response("", { status: 422 });
      const statuses = [];
      for (let time = 0; time < 6; time += 1)
        statuses.push((await handle(recover(recovery.code))).status);
      same(statuses.join(), "422,422,422,422,422,429", "attempts");
    },
  ];
  yield [
    "a press that is sent twice never reads that the link is used while that is not known",
    async () => {
      for (const [answer, first, second] of [
        ["ok", 200, 409],
        ["away", 503, 200],
        [SHORT, 422, 200],
        [new Error("no connection"), 503, 200],
      ]) {
        const { make, press, activation, answers, asked } = scene(subject);
        let end;
        const gate = new Promise((resolve) => (end = resolve));
        answers.judge = async () => {
          if (asked.length > 1) return "ok";
          await gate;
          if (answer instanceof Error) throw answer;
          return answer;
        };
        const handle = make();
        const presses = [0, 1].map(() => handle(press({ token: activation.token })));
        await new Promise((resolve) => setTimeout(resolve, 60));
        end();
        const statuses = (await Promise.all(presses)).map(({ status }) => status);
        same(statuses.join(), `${first},${second}`, String(answer));
        same((await handle(press({ token: activation.token }))).status, 409, "afterwards");
      }
      const { make, press, activation, answers } = scene(subject);
      answers.judge = () => new Promise(() => {});
      const handle = make({ storeTimeout: 0.2 });
      handle(press({ token: activation.token }));
      const page = await read(await handle(press({ token: activation.token })));
      same(page.status, 503, "while the first does not end");
      holds(/We do not know whether this worked/.test(page.text), page.text);
    },
  ];
  yield [
    "a field for a code in which nothing was typed is none",
    async () => {
      for (const typed of ["", " ", "\t\r\n", "\u00a0\u200b", "-"]) {
        const { make, press, recovery, activation, asked } = scene(subject);
        const handle = make();
        const { token } = activation;
        const fields = { token, code: typed, browser_code: typed };
        same((await handle(press(fields))).status, 200, JSON.stringify(typed));
        const [{ code, browserCode }] = asked;
        same(`${code} ${browserCode}`, "undefined undefined", "what is passed on");
        const page = await read(
          await handle(press({ token: recovery.token, code: typed }, { path })),
        );
        same(page.status, 422, "an action with a code");
        holds(page.text.includes("Type the whole code"), page.text);
      }
      const { make, press, activation } = scene(subject);
      const fields = { token: activation.token, code: "1" };
      same((await make()(press(fields))).status, 403, "a code where there is none");
    },
  ];
  yield [
    "a code counts with what stands around it, in full width, and in the digits of any script",
    async () => {
      const { make, recover, recovery, asked } = scene(subject);
      const [first, ...rest] = recovery.code;
      const inScript = (zero) =>
        [...recovery.code].map((digit) => String.fromCodePoint(zero + Number(digit))).join("");
      const typed = [
        ` ${recovery.code}`,
        `${recovery.code}\r\n`,
        `${first} ${rest.join("")}`,
        `${first}-${rest.join("")}`,
        `${first}\u2013${rest.join("")}`,
        `${first}\u00A0${rest.join(" ")}`,
        `${first}\u200B${rest.join("")}`,
        `${recovery.code}.`,
        `*${recovery.code}*`,
        `\u201c${recovery.code}\u201d,`,
        `<${recovery.code}>\u2026`,
        `= ${recovery.code}`,
        `\u2066${first}\u00b7${rest.join(".")}\u2069`,
        [...recovery.code].map((digit) => `${digit}\ufe0f\u20e3`).join(""),
        inScript(0xff10),
        inScript(0x660),
        inScript(0x6f0),
        inScript(0x966),
        inScript(0x1d7ce),
        inScript(0x1d7ec),
      ];
      for (const code of typed)
        same((await make()(recover(code))).status, 200, JSON.stringify(code));
      same(
        asked.map(({ code }) => code).join(),
        typed.map(() => recovery.code).join(),
        "what is passed on",
      );
      const page = await read(await make()(recover("1234")));
      holds(page.text.includes("Type the whole code") && !page.text.includes("missing"), page.text);
    },
  ];
}
