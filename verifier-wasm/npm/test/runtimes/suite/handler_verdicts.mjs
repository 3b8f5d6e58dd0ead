// What `redeem` answers: the page of each verdict, whether the link still works after it, and
// answers that are no verdict or do not fit the link.

import { holds, same } from "./expect.mjs";
import { read, scene } from "./handler_scene.mjs";
import { altered } from "./tokens.mjs";

export function* handlerVerdicts(subject) {
  yield [
    "the verdict of the database is the answer, and says whether the link still works",
    async () => {
      for (const [verdict, status, after] of [
        ["ok", 200, 409],
        ["unknown", 403, 200],
        ["used", 409, 409],
        ["expired", 410, 409],
        ["not_eligible", 409, 200],
        ["too_many_attempts", 429, 200],
        // Its form has no field for one.
        ["wrong_code", 500, 200],
        ["away", 503, 200],
      ]) {
        const { make, press, activation, answers } = scene(subject);
        const handle = make();
        answers.now = verdict;
        same((await handle(press({ token: activation.token }))).status, status, verdict);
        answers.now = "ok";
        same((await handle(press({ token: activation.token }))).status, after, `after ${verdict}`);
      }
    },
  ];
  yield [
    "an application that throws, or answers what is no verdict, is told from one that did nothing",
    async () => {
      const { make, press, activation, answers, errors } = scene(subject);
      const handle = make();
      const spent = new Response("x");
      await spent.text();
      const locked = new Response("x");
      locked.body.getReader();
      for (const answer of [
        new Error("reset"),
        undefined,
        true,
        "OK",
        { verdict: "ok" },
        Response.error(),
        spent,
        locked,
      ]) {
        answers.now = answer;
        const page = await handle(press({ token: activation.token }));
        same(page.status, 503, `status of ${answer}`);
        holds((await page.text()).includes("do not know whether"), "what is said");
      }
      same(errors.length, 8, "reports");
      answers.now = "ok";
      same((await handle(press({ token: activation.token }))).status, 200, "afterwards");
    },
  ];
  yield [
    "that the database does not know a genuine link is said once, and of no forged one",
    async () => {
      const { make, press, recover, activation, recovery, answers, errors } = scene(subject);
      const handle = make();
      answers.now = "unknown";
      const forged = press({ token: altered(activation.token) });
      same((await handle(forged)).status, 403, "a forged one");
      same(errors.length, 0, "reports of a forged one");
      same((await handle(press({ token: activation.token }))).status, 403, "a genuine one");
      same((await handle(recover(recovery.code))).status, 403, "another one");
      same(errors.length, 1, "reports");
      holds(/asks another database/.test(errors[0].message), String(errors[0]));
    },
  ];
  yield [
    "an answer that no form fits is the operator's error",
    async () => {
      const { make, press, activation, answers, errors } = scene(subject);
      answers.now = "wrong_code";
      const handle = make();
      const page = await read(await handle(press({ token: activation.token })));
      same(page.status, 500, "status");
      holds(!/digits|not valid/.test(page.text.replace(/<style.*<\/style>/s, "")), page.text);
      holds(/bindingIsProven and browserCode/.test(errors[0].message), errors[0].message);
      answers.now = "ok";
      same((await handle(press({ token: activation.token }))).status, 200, "afterwards");
    },
  ];
}
