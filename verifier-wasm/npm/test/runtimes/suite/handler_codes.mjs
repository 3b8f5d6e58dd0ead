// The code of a recovery: it is asked for, judged at most five times, and passed on for the
// database to judge as well.

import { holds, same } from "./expect.mjs";
import { read, scene, withoutNonce } from "./handler_scene.mjs";
import { v3Pair } from "./tokens.mjs";

export function* handlerCodes(subject) {
  const { publicEntry, createMemoryStore, vectors3 } = subject;
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
}
