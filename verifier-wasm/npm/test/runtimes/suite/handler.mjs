// The handler of `./handler`, asked by requests as a person,
// a mail scanner and an attacker send them.

import { handlerAgain } from "./handler_again.mjs";
import { handlerPassword } from "./handler_password.mjs";
import { handlerRenew } from "./handler_renew.mjs";
import { handlerSite } from "./handler_site.mjs";
import { handlerBadInput } from "./handler_bad_input.mjs";
import { handlerBinding } from "./handler_binding.mjs";
import { handlerBound } from "./handler_bound.mjs";
import { handlerBoundTries } from "./handler_bound_tries.mjs";
import { handlerFragment } from "./handler_fragment.mjs";
import { handlerMended } from "./handler_mended.mjs";
import { handlerOnward } from "./handler_onward.mjs";
import { handlerOperator } from "./handler_operator.mjs";
import { handlerPages } from "./handler_pages.mjs";
import { handlerProcesses } from "./handler_processes.mjs";
import { read, scene, SITE, withoutNonce } from "./handler_scene.mjs";
import { handlerWithoutScript } from "./handler_without_script.mjs";
import { holds, same } from "./expect.mjs";
import { scene as sceneOfActions } from "./further.mjs";
import { recordingStore, untouchedStore } from "./stores.mjs";
import { altered, hex, v3Pair } from "./tokens.mjs";

export function* handler(subject) {
  if (subject.handlerEntry === undefined) return;
  yield* using(subject);
  yield* codes(subject);
  yield* outages(subject);
  yield* handlerBound(subject);
  yield* handlerBoundTries(subject);
  yield* handlerBinding(subject);
  yield* handlerFragment(subject);
  yield* handlerPages(subject);
  yield* handlerBadInput(subject);
  yield* handlerMended(subject);
  yield* handlerAgain(subject);
  yield* handlerWithoutScript(subject);
  yield* handlerPassword(subject);
  yield* handlerRenew(subject);
  yield* handlerSite(subject);
  yield* handlerOnward(subject);
  yield* handlerProcesses(subject);
  yield* handlerOperator(subject);
}

function* using(subject) {
  const { publicEntry, createMemoryStore, vectors3 } = subject;
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
    "a v3 recovery is judged by whoever can: without checkCode nobody, with it the database",
    async () => {
      if (publicEntry === undefined) return;
      const { make, open, press, answers, asked } = scene(subject);
      const { recovery } = v3Pair(vectors3);
      const keys = Uint8Array.from(recovery.publicKey.match(/../g), (two) =>
        Number.parseInt(two, 16),
      );
      const clock = () => recovery.now;
      const verifier = publicEntry.createVerifier({ keys, clock });
      const store = () => createMemoryStore({ capacity: 10, clock });
      const fields = { token: recovery.token, code: "04711" };
      const path = "/recover";
      const undecided = make({ verifier, store: store() });
      same((await undecided(open(recovery.token, { path }))).status, 200, "open");
      same((await undecided(press(fields, { path }))).status, 500, "without checkCode");
      same(asked.length, 0, "calls of redeem");
      const handle = make({ verifier, store: store(), checkCode: () => true });
      answers.now = "wrong_code";
      for (let time = 0; time < 5; time += 1)
        same((await handle(press(fields, { path }))).status, 422, "a wrong code");
      answers.now = "ok";
      same((await handle(press(fields, { path }))).status, 429, "after five");
      same(asked.length, 5, "calls of redeem");
      same(asked[0].code, "04711", "the code for the database");
    },
  ];
  yield [
    "what is wrong with the options is said when the handler is made",
    () => {
      const { make } = scene(subject);
      for (const [what, more] of Object.entries({
        "no redeem": { redeem: undefined },
        "no store": { store: undefined },
        "no verifier": { verifier: {} },
        "a misspelt option": { page: {} },
        "a page that is none": { pages: { start: "" } },
        "a page that is a number": { pages: { done: 1 } },
        "a form without form": { pages: { form: "<p>Hello" } },
        "an action that is no name": { action: 1 },
        "texts that are no object": { texts: { de: "Hallo" } },
        "a language that is none": { texts: { "": {} } },
        "a directive that cannot be extended": { policy: { "frame-ancestors": "*" } },
        "a policy of two directives": { policy: { "img-src": "'self'; script-src *" } },
        "an origin with a path": { origins: ["https://a.example/"] },
        "onError that is no function": { onError: "console" },
        "too many attempts": { maxCodeAttempts: 101 },
      })) {
        let reason = "none";
        try {
          make(more);
        } catch (error) {
          reason = error.reason;
        }
        same(reason, "ERR_INVALID_ARGUMENT", what);
      }
    },
  ];
}

function* codes(subject) {
  yield [
    "a code is asked for, and five are judged, whatever comes at once",
    async () => {
      const { make, open, recover, recovery, asked } = scene(subject);
      const handle = make();
      const page = await read(await handle(open(recovery.token, { path: "/recover" })));
      holds(
        /name="code"[^>]+autocomplete="one-time-code"\n pattern="[^"]+\{5\}"/.test(page.text),
        page.text,
      );
      const guesses = Array.from({ length: 50 }, (_, guess) => String(guess).padStart(5, "0"));
      const statuses = (await Promise.all(guesses.map((code) => handle(recover(code))))).map(
        ({ status }) => status,
      );
      same(statuses.filter((status) => status === 422).length, 5, "verdicts");
      same(statuses.filter((status) => status === 429).length, 45, "without a verdict");
      const right = await read(await handle(recover(recovery.code)));
      const wrong = await read(await handle(recover(recovery.wrongCode)));
      same(right.status, 429, "the right code after that");
      same(
        withoutNonce(right.text),
        withoutNonce(wrong.text),
        "what is said to a right and a wrong code",
      );
      same(asked.length, 0, "calls of redeem");
    },
  ];
  yield [
    "a right code is passed on with the secret; " +
      "one that is missing or cut is asked for and counts not",
    async () => {
      const { make, recover, press, recovery, asked } = scene(subject);
      const handle = make();
      for (let time = 0; time < 6; time += 1) {
        for (const code of ["", "1234", "123456", "12 34", "1234x", "12.34", "i2345"]) {
          same((await handle(recover(code))).status, 422, `the code ${code}`);
        }
        same(
          (await handle(press({ token: recovery.token }, { path: "/recover" }))).status,
          422,
          "no code",
        );
      }
      const wrong = await read(await handle(recover(recovery.wrongCode)));
      same(wrong.status, 422, "a wrong code");
      holds(
        wrong.text.includes('role="alert"') && wrong.text.includes("aria-invalid"),
        "how the form says it",
      );
      same((await handle(recover(recovery.code))).status, 200, "the right code");
      same(
        `${asked[0].code} ${asked[0].codeIsProven} ${asked.length}`,
        `${recovery.code} true 1`,
        "what is passed on",
      );
    },
  ];
  yield [
    "presses while the database is away lock nobody out",
    async () => {
      const { make, recover, recovery, answers } = scene(subject);
      const handle = make();
      for (const answer of ["away", new Error("no connection"), "not_eligible"]) {
        answers.now = answer;
        for (let time = 0; time < 7; time += 1) await handle(recover(recovery.code));
      }
      answers.now = "ok";
      same((await handle(recover(recovery.code))).status, 200, "afterwards");
    },
  ];
}

function* outages(subject) {
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
