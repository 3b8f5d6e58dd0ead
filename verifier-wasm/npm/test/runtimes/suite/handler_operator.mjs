// What only the operator can mend: it is told him in a line,
// and no visitor reads that the link is not valid.

import { holds, same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { FORM, SITE, read, scene } from "./handler_scene.mjs";
import { recordingStore, untouchedStore } from "./stores.mjs";
import { altered, bytes, hex, pair, v2Pair, v3Pair } from "./tokens.mjs";

export function* handlerOperator(subject) {
  yield* v1(subject);
  yield* kindsOfKeys(subject);
  yield* origins(subject);
  yield* otherDatabase(subject);
  yield* logs(subject);
}

function* otherDatabase(subject) {
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
}

function* v1(subject) {
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

function* kindsOfKeys(subject) {
  const { createVerifier, createMemoryStore, publicEntry, vectors, vectors2, vectors3, options } =
    subject;
  if (publicEntry === undefined) return;
  const ofThree = (first, more) => {
    const one = pair(vectors).activation;
    const two = v2Pair(vectors2).activation;
    const three = v3Pair(vectors3).activation;
    const clock = () => Math.min(two.now, three.now);
    const shared = createVerifier({ keys: [one.key, two.key], clock, ...options });
    const own = publicEntry.createVerifier({ keys: text(three.publicKey), clock });
    const { make, ...rest } = scene(subject);
    const verifier = { both: [shared, own], turned: [own, shared], shared, own, list: [shared] }[
      first
    ];
    const store = createMemoryStore({ capacity: 100, clock });
    return { ...rest, one, two, three, clock, make, handle: make({ verifier, store, ...more }) };
  };
  yield [
    "links of v1, v2 and v3 work on one route, given verifiers of both kinds of keys",
    async () => {
      for (const order of ["both", "turned"]) {
        const { handle, open, press, one, two, three, asked, errors } = ofThree(order);
        for (const { token, secret } of [one, two, three]) {
          same((await handle(open(token))).status, 200, `${order} open`);
          same((await handle(press({ token }))).status, 200, `${order} press`);
          same((await handle(press({ token }))).status, 409, `${order} again`);
          same(hex(asked.at(-1).secret), secret, `${order} secret`);
          same((await handle(open(altered(token)))).status, 403, `${order} a forged one`);
        }
        same(errors.length, 0, "reports");
      }
    },
  ];
  yield [
    "a link that no verifier has the kind of key for is the operator's error, said once, " +
      "and not called not valid",
    async () => {
      for (const [given, which, cure] of [
        ["shared", ["three"], /v3 came.*mailroom-verifier\/public/],
        ["list", ["three"], /v3 came.*mailroom-verifier\/public/],
        ["own", ["one", "two"], /v1 or v2 came.*mailroom-verifier$/],
      ]) {
        const { handle, open, press, asked, errors, ...links } = ofThree(given);
        for (const name of which) {
          for (const request of [
            open(links[name].token),
            open(links[name].token),
            press({ token: links[name].token }),
          ]) {
            const page = await read(await handle(request));
            same(page.status, 500, `${given} ${name}`);
            holds(!page.text.includes("not valid"), page.text);
          }
        }
        same(`${asked.length} ${errors.length}`, "0 1", `${given}: calls of redeem, and reports`);
        holds(cure.test(errors[0].message), errors[0].message);
      }
    },
  ];
  yield [
    "so is one that names a key that no verifier has, unless it says that it has expired",
    async () => {
      const { make, open, press, two, three, clock, asked, errors } = ofThree("both");
      const strangers = [
        createVerifier({
          keys: [new Uint8Array(32).fill(7), new Uint8Array(32).fill(9)],
          clock,
          ...options,
        }),
        createVerifier({ keys: new Uint8Array(32).fill(7), clock, ...options }),
        publicEntry.createVerifier({ keys: bytes(three.publicKey), clock }),
      ];
      for (const [verifier, token] of [
        [strangers[0], two.token],
        [strangers[1], two.token],
        [[strangers[1], strangers[2]], two.token],
        [[strangers[2], strangers[1]], two.token],
      ]) {
        errors.length = 0;
        const handle = make({ verifier, store: untouchedStore() });
        for (const request of [open(token), press({ token }), open(token)])
          same((await handle(request)).status, 500, "status");
        same(errors.length, 1, "reports");
        holds(/names a key that no verifier has/.test(errors[0].message), errors[0].message);
      }
      errors.length = 0;
      // The expiry of a token that nobody signed: its first six bytes, then the second 1.
      const past = `${two.token.slice(0, 8)}AAAAAAAAAAB${two.token.slice(19)}`;
      const handle = make({ verifier: strangers[1], store: untouchedStore() });
      same(
        `${(await handle(open(past))).status} ${errors.length}`,
        "410 0",
        "one that says that it has expired",
      );
      same(asked.length, 0, "calls of redeem");
    },
  ];
  yield [
    "a list of verifiers that is none is said to be so",
    () => {
      const { make, verifier } = scene(subject);
      for (const wrong of [[], [undefined], [verifier, {}], [[verifier]], [verifier, "x"]]) {
        let reason = "none";
        try {
          make({ verifier: wrong });
        } catch (error) {
          reason = error.reason;
        }
        same(reason, "ERR_INVALID_ARGUMENT", "reason");
      }
    },
  ];
}

function* origins(subject) {
  const sent = (headers, fields, url = "http://internal:8080/activate") =>
    new Request(url, {
      method: "POST",
      body: new URLSearchParams(fields).toString(),
      headers: { "Content-Type": FORM, ...headers },
    });
  yield [
    "where the browser says from which site a form is, that decides",
    async () => {
      for (const [headers, isTaken, given] of [
        [{ "Sec-Fetch-Site": "same-origin", Origin: "null" }, true],
        [{ "Sec-Fetch-Site": "same-origin", Origin: SITE }, true],
        [{ "Sec-Fetch-Site": "same-origin" }, true],
        [{ "Sec-Fetch-Site": "cross-site", Origin: SITE }, true, [SITE]],
        [{ "Sec-Fetch-Site": "same-site", Origin: SITE }, true, [SITE]],
        [{ "Sec-Fetch-Site": "cross-site", Origin: "http://internal:8080" }, false],
        [{ "Sec-Fetch-Site": "same-site", Origin: "http://internal:8080" }, false],
        [{ "Sec-Fetch-Site": "none", Origin: "http://internal:8080" }, false],
        [{ "Sec-Fetch-Site": "same-origin, cross-site", Origin: "http://internal:8080" }, false],
        [{ "Sec-Fetch-Site": "", Origin: "http://internal:8080" }, false],
        [{ Origin: "http://internal:8080" }, true],
        [{ Origin: "https://internal:8080" }, true],
        [{ Origin: "null" }, false],
      ]) {
        const { make, activation } = scene(subject);
        const { status } = await make({ origins: given })(
          sent(headers, { token: activation.token }),
        );
        same(status, isTaken ? 200 : 403, JSON.stringify(headers));
      }
    },
  ];
  yield [
    "a request that is known to be of https is sent by no page of http",
    async () => {
      const { make, activation } = scene(subject);
      const headers = { Origin: "http://app.example" };
      same(
        (await make()(sent(headers, { token: activation.token }, `${SITE}/activate`))).status,
        403,
        "status",
      );
    },
  ];
  yield [
    "that a genuine link's form was refused is said once, without the origin that came",
    async () => {
      const { make, activation, errors, asked } = scene(subject);
      const handle = make({ store: untouchedStore() });
      const token = activation.token;
      const silent = [
        sent({ "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example" }, { token }),
        sent({ Origin: "https://evil.example" }, { token: altered(token) }),
        sent({ Origin: "https://evil.example" }, {}),
      ];
      for (const request of silent) same((await handle(request)).status, 403, "status");
      same(errors.length, 0, "reports");
      for (const headers of [
        { Origin: "https://evil.example" },
        { "Sec-Fetch-Site": "same-site", Origin: SITE },
        {},
      ]) {
        same((await handle(sent(headers, { token }))).status, 403, "status");
      }
      same(`${errors.length} ${asked.length}`, "1 0", "reports, and calls of redeem");
      holds(
        /internal:8080/.test(errors[0].message) && /option origins/.test(errors[0].message),
        errors[0].message,
      );
      holds(!/evil/.test(errors[0].message), errors[0].message);
    },
  ];
}

function* logs(subject) {
  const { createMemoryStore } = subject;
  const logged = async (use) => {
    const lines = [];
    const { error: original } = console;
    console.error = (...given) => lines.push(given.join(" "));
    try {
      await use();
    } finally {
      console.error = original;
    }
    return lines;
  };
  yield [
    "by default the log says what went wrong and where, and nothing that the visitor sent",
    async () => {
      const { make, press, activation, answers } = scene(subject);
      const password = "correct horse battery";
      const { token, secret } = activation;
      const coded = Object.assign(new TypeError("Undefined values are not allowed"), {
        code: "UNDEFINED_VALUE",
      });
      const told = [
        coded,
        new RangeError(`no row for ${token} ${secret} and ${password}`),
        new Error(`invalid input syntax for type uuid: "hunter2" of ada@example.org, code 31943`),
        new Error("the pool failed", { cause: new Error("connect ECONNREFUSED 10.0.0.1:5432") }),
      ];
      const lines = await logged(async () => {
        for (const error of told) {
          answers.now = error;
          await make({ onError: undefined })(press({ token, password }));
        }
      });
      same(lines.length, told.length, "lines");
      const [first, second, third, fourth] = lines;
      holds(
        first.startsWith(
          "mailroom-verifier/handler: TypeError UNDEFINED_VALUE: Undefined values are not allowed",
        ),
        first,
      );
      holds(/RangeError: no row for … … and …/.test(second), second);
      holds(/Error: invalid input syntax for type uuid: "…" of … code …/.test(third), third);
      holds(/the pool failed.*, caused by Error: connect ECONNREFUSED /.test(fourth), fourth);
      // Every runtime of the suite names the place.
      for (const line of lines) holds(/\(at \S+:\d+/.test(line), line);
      holds(!lines.join().includes(token.slice(20, 40)), "the token");
      for (const word of [secret, "horse", "hunter", "ada", "31943"])
        holds(!lines.join().includes(word), word);
    },
  ];
  yield [
    "by default the log names what is missing in the database, and nothing that was sent",
    async () => {
      const { make, press, activation, answers } = scene(subject);
      const lines = await logged(async () => {
        for (const [code, message] of [
          ["42P01", 'relation "oauth2_sessions" does not exist'],
          ["3F000", 'schema "mailroom" does not exist: has mailroom dev run there?'],
          ["42703", 'column "password_salt2" of relation "users" does not exist'],
          ["42883", "function mailroom.redeem(secret => bytea, text[]) does not exist"],
          ["42P01", 'relation "hunter2" does not exist'],
          ["42P01", 'relation "ada@example.org" does not exist'],
          ["42P01", 'relation "unsaid" does not exist, as "correct horse" said'],
          ["22P02", 'relation "unsaid" does not exist'],
          ["42P01", `relation "${"unsaid".repeat(40)}" does not exist`],
        ]) {
          answers.now = Object.assign(new Error(message), { code });
          await make({ onError: undefined })(press({ token: activation.token, name: "hunter2" }));
        }
      });
      const found = lines.map((line) => /: Error \w+: (.*) \(at /.exec(line)?.[1]);
      const masked = 'relation "…" does not exist';
      const expected = [
        'relation "oauth2_sessions" does not exist',
        'schema "mailroom" does not exist: has mailroom dev run there?',
        'column "password_salt2" of relation "users" does not exist',
        "function mailroom.redeem(secret => bytea, text[]) does not exist",
        ...[masked, masked, 'relation "…" does not exist, as "…" said', masked, masked],
      ];
      same(found.join("\n"), expected.join("\n"), "lines");
    },
  ];
  yield [
    "a key that is not set is said with what to do",
    async () => {
      const { make, press, activation } = scene(subject);
      for (const [key, shape] of [
        [undefined, "undefined"],
        ["", "0"],
      ]) {
        const verifier = subject.createVerifier({ keys: () => key, ...subject.options });
        const store = createMemoryStore({ capacity: 10 });
        const lines = await logged(() =>
          make({ onError: undefined, verifier, store })(press({ token: activation.token })),
        );
        const expected =
          `ERR_KEY_INVALID: wrong: keys[0]: ${shape}: is MAILROOM_SECRET_KEY set? ` +
          "(https://github.com/mailroom/mailroom/blob/main/verifier-wasm/npm/errors.md" +
          "#err_key_invalid)";
        holds(lines[0].endsWith(expected), lines[0]);
      }
    },
  ];
  yield [
    "an error of this package, and what a store threw, is said in its words",
    async () => {
      const { make, press, activation, clock } = scene(subject);
      const store = { consume: () => Promise.reject(new Error(`refused ${activation.token}`)) };
      const lines = await logged(async () => {
        const handle = make({ onError: undefined, store, storeTimeout: 0.05 });
        same((await handle(press({ token: activation.token }))).status, 503, "a store that fails");
      });
      holds(
        /: ERR_STORE_UNAVAILABLE: the store did not answer, caused by Error: refused …/.test(
          lines[0],
        ),
        lines[0],
      );
      const keys = () => {
        throw new ReferenceError("process is not defined");
      };
      const verifier = subject.createVerifier({ keys, clock, ...subject.options });
      const said = await logged(async () => {
        const handle = make({
          onError: undefined,
          verifier,
          store: createMemoryStore({ capacity: 10 }),
        });
        same((await handle(press({ token: activation.token }))).status, 500, "keys that throw");
      });
      holds(
        /ERR_KEY_INVALID: wrong: keys, caused by ReferenceError: process is not defined/.test(
          said[0],
        ),
        said[0],
      );
    },
  ];
  yield [
    "what cannot be read, or is no error, is told as that",
    async () => {
      const { make, press, activation } = scene(subject);
      const revoked = Proxy.revocable({}, {});
      revoked.revoke();
      for (const thrown of [
        undefined,
        null,
        "text",
        1,
        {},
        revoked.proxy,
        Object.create(Error.prototype),
      ]) {
        const redeem = () => {
          throw thrown;
        };
        const lines = await logged(async () => {
          same(
            (await make({ onError: undefined, redeem })(press({ token: activation.token }))).status,
            503,
            "status",
          );
        });
        same(lines.length, 1, "lines");
        holds(!lines[0].includes("text was"), lines[0]);
      }
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
