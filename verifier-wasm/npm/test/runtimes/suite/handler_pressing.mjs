// Opening a link uses nothing; pressing its button uses it once, by the action of its address, and
// to the end if the visitor leaves.

import { holds, same } from "./expect.mjs";
import { scene as sceneOfActions } from "./further.mjs";
import { read, scene } from "./handler_scene.mjs";
import { recordingStore, untouchedStore } from "./stores.mjs";
import { altered, hex } from "./tokens.mjs";

export function* handlerPressing(subject) {
  yield [
    "opening a link a hundred times uses nothing, pressing its button uses it, once",
    async () => {
      const { make, open, press, activation, asked } = scene(subject);
      const handle = make();
      for (let time = 0; time < 100; time += 1)
        same((await handle(open(activation.token))).status, 200, "open");
      same(asked.length, 0, "calls of redeem");
      const done = await read(await handle(press({ token: activation.token })));
      same(done.status, 200, "press");
      holds(done.text.includes("Your account is active"), done.text);
      const [link] = asked;
      same(hex(link.secret), activation.secret, "secret");
      same(hex(link.consumedId), activation.id, "id");
      same(`${link.action} ${link.code} ${link.codeIsProven}`, "activate undefined false", "link");
      same(JSON.stringify(link), "{}", "what JSON shows of a link");
      same((await handle(press({ token: activation.token }))).status, 409, "again");
      same(asked.length, 1, "calls of redeem");
    },
  ];
  yield [
    "of a hundred presses at once one uses the link",
    async () => {
      const { make, press, activation, asked } = scene(subject);
      const handle = make();
      const presses = Array.from({ length: 100 }, () => handle(press({ token: activation.token })));
      const statuses = (await Promise.all(presses)).map(({ status }) => status);
      same(statuses.filter((status) => status === 200).length, 1, "winners");
      same(statuses.filter((status) => status === 409).length, 99, "others");
      same(asked.length, 1, "calls of redeem");
    },
  ];
  yield [
    "the action is that of the address unless it is given",
    async () => {
      const { make, open, press, asked, activation, recovery, errors } = scene(subject);
      const handle = make();
      for (const path of [
        "/activate",
        "/activate/",
        "/activate//",
        "/account/activate",
        "/ACTIVATE",
        "/Activate%20",
      ]) {
        same((await handle(open(activation.token, { path }))).status, 200, path);
      }
      same(
        (await handle(open(recovery.token))).status,
        403,
        "a recovery on the page of activations",
      );
      same(
        (await handle(open(activation.token, { path: "/recover" }))).status,
        403,
        "an activation on that of recoveries",
      );
      for (const path of [
        "/activated",
        "/",
        "/favicon.ico",
        "/robots.txt",
        "/activate.html",
        "/activate;x",
        "/wp-login.php",
      ]) {
        same((await handle(open(activation.token, { path }))).status, 404, path);
        same(
          (await handle(press({ token: activation.token }, { path }))).status,
          404,
          `a form for ${path}`,
        );
      }
      same(errors.length, 0, "what is reported");
      same(asked.length, 0, "calls of redeem");
      const given = make({ action: "recover" });
      same(
        (await given(open(recovery.token, { path: "/reset" }))).status,
        200,
        "a recovery where it was given",
      );
    },
  ];
  yield [
    "links of an action of one's own work, with the digits of their code",
    async () => {
      const { token, code, further, made } = sceneOfActions(subject, "change_email");
      const { make, press, open, asked } = scene(subject);
      const path = "/account/email";
      const handle = make({
        verifier: made(further),
        action: "change_email",
        store: recordingStore(),
      });
      const page = await read(await handle(open(token, { path })));
      same(page.status, 200, "open");
      holds(page.text.includes('){6}"'), page.text);
      holds(page.text.includes("<h1>Confirm your new email address</h1>"), page.text);
      same((await handle(press({ token, code }, { path }))).status, 200, "press");
      same(`${asked[0].action} ${asked[0].code}`, `change_email ${code}`, "what is passed on");
    },
  ];
  yield [
    "what a press has begun is given to waitUntil, and goes on until the link is given back",
    async () => {
      const { make, press, activation } = scene(subject);
      let end;
      const gate = new Promise((resolve) => (end = resolve));
      const handle = make({ redeem: () => gate });
      const given = [];
      const context = {
        waitUntil(work) {
          same(this, context, "this");
          given.push(work);
        },
      };
      const answer = handle(press({ token: activation.token }), context);
      for (let turn = 0; given.length === 0 && turn < 60_000; turn += 1)
        await new Promise((turn) => setTimeout(turn, 1));
      same(given.length, 1, "what was given");
      end("away");
      await given[0];
      same((await answer).status, 503, "the answer");
      same(
        (await make()(press({ token: activation.token }), { params: {} })).status,
        200,
        "a context without it",
      );
    },
  ];
  yield [
    "whatever is stored is stored under the id, and a forged link reaches no store",
    async () => {
      const { make, press, activation } = scene(subject);
      const handle = make({ store: untouchedStore() });
      same(
        (await handle(press({ token: altered(activation.token) }))).status,
        403,
        "a forged link",
      );
      same(
        (await make({ store: recordingStore() })(press({ token: activation.token }))).status,
        200,
        "a genuine one",
      );
    },
  ];
}
