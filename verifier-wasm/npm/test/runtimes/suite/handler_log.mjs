// What the log says of an error where no `onError` is given: what went wrong, where and what to do,
// and nothing that a visitor sent.

import { holds, same } from "./expect.mjs";
import { scene } from "./handler_scene.mjs";

export function* handlerLog(subject) {
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
}
