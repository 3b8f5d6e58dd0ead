// Links of v1, of which the database alone knows the expiry and the code: what is remembered of
// their use, and what is passed on unproven.

import { holds, same } from "./expect.mjs";
import { read, scene } from "./handler_scene.mjs";
import { recordingStore, untouchedStore } from "./stores.mjs";
import { altered, hex, pair } from "./tokens.mjs";

export function* handlerV1(subject) {
  const { createVerifier, createMemoryStore, vectors, options } = subject;
  const of1 = () => {
    const { activation, recovery } = pair(vectors);
    const { make, ...rest } = scene(subject);
    const verifier = createVerifier({ keys: activation.key, ...options });
    const handler = (more) =>
      make({ verifier, store: createMemoryStore({ capacity: 10 }), ...more });
    return { ...rest, handler, activation, recovery };
  };
  yield [
    "a v1 activation works without any option, and its use is remembered for a day",
    async () => {
      const { handler, open, press, activation, asked, errors } = of1();
      const store = recordingStore();
      const handle = handler({ store });
      same((await handle(open(activation.token))).status, 200, "open");
      const before = Math.floor(Date.now() / 1000);
      same((await handle(press({ token: activation.token }))).status, 200, "press");
      same((await handle(press({ token: activation.token }))).status, 409, "again");
      const [{ until }] = store.calls;
      holds(until >= before + 86_400 && until < before + 86_400 + 3_600, `${until - before} s`);
      same((await handle(open(altered(activation.token)))).status, 403, "a forged one");
      same(`${asked.length} ${errors.length}`, "1 0", "calls of redeem, and reports");
    },
  ];
  yield [
    "a v1 recovery is asked of an application that counts: no signature is checked before, " +
      "and nothing stored",
    async () => {
      const path = "/recover";
      for (const counting of ["option", "property"]) {
        const { handler, open, press, recovery, answers, asked } = of1();
        const said = (given) => {
          asked.push(given);
          return answers.judge(given);
        };
        const redeem =
          counting === "property" ? Object.assign(said, { countsAttempts: true }) : said;
        const more = counting === "option" ? { countsAttempts: true } : {};
        const handle = handler({ store: untouchedStore(), redeem, ...more });
        answers.judge = ({ secret, code }) => {
          if (hex(secret) !== recovery.secret) return "unknown";
          return code === recovery.code ? "ok" : "wrong_code";
        };
        const wrong = recovery.code === "00000" ? "11111" : "00000";
        const page = await read(await handle(open(recovery.token, { path })));
        same(page.status, 200, "open");
        holds(page.text.includes('name="code"') && page.text.includes("5 digits"), page.text);
        for (let time = 0; time < 8; time += 1) {
          same(
            (await handle(press({ token: recovery.token, code: wrong }, { path }))).status,
            422,
            "a wrong code",
          );
        }
        same(
          (await handle(press({ token: recovery.token, code: "1" }, { path }))).status,
          422,
          "no code",
        );
        same(asked.length, 8, "calls of redeem");
        same(
          (await handle(press({ token: recovery.token, code: recovery.code }, { path }))).status,
          200,
          "the right one",
        );
        const { secret, consumedId, code, codeIsProven, bindingIsProven, expiresAt } = asked.at(-1);
        same(
          `${hex(secret)} ${hex(consumedId)}`,
          `${recovery.secret} ${recovery.id}`,
          "what is passed on",
        );
        same(
          `${code} ${codeIsProven} ${bindingIsProven} ${expiresAt}`,
          `${recovery.code} false false undefined`,
          "of it",
        );
        // A forgery is shown and judged as a genuine one: there is no oracle.
        const forged = altered(recovery.token, 10);
        same((await handle(open(forged, { path }))).status, 200, "a forged one");
        same(
          (await handle(press({ token: forged, code: recovery.code }, { path }))).status,
          403,
          "its press",
        );
        same(
          (await handle(open(`${recovery.token.slice(0, -1)}B`, { path }))).status,
          403,
          "another spelling",
        );
      }
    },
  ];
  yield [
    "where nobody counts, a v1 recovery is the operator's error, said once",
    async () => {
      const { handler, open, press, recovery, asked, errors } = of1();
      const path = "/recover";
      const handle = handler({ store: untouchedStore() });
      for (let time = 0; time < 3; time += 1) {
        const page = await read(await handle(open(recovery.token, { path })));
        same(page.status, 500, "open");
        holds(
          page.text.includes("This site has a problem") && !page.text.includes("not valid"),
          page.text,
        );
        same(
          (await handle(press({ token: recovery.token, code: recovery.code }, { path }))).status,
          500,
          "press",
        );
      }
      same(
        `${asked.length} ${errors.length} ${errors[0].reason}`,
        "0 1 ERR_GUARD_UNSUPPORTED",
        "what is reported",
      );
      holds(/countsAttempts: true/.test(errors[0].message), errors[0].message);
      for (const wrong of [1, "true", null]) {
        let reason = "none";
        try {
          handler({ countsAttempts: wrong });
        } catch (error) {
          reason = error.reason;
        }
        same(reason, "ERR_INVALID_ARGUMENT", String(wrong));
      }
    },
  ];
}
