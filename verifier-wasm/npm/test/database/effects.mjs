// What a link does once it was used: committed with the use, or rolled back with it.

import { inspect } from "node:util";

import { holds, same } from "../runtimes/suite/expect.mjs";
import { freshLinks, sign } from "../stores/links.mjs";
import { thrownBy } from "./functions.mjs";

const VERIFY = "UPDATE users SET verified_at = now() WHERE id = $1";

export function* effects({ mailroom, away, scene, run, api, load }) {
  const { InvalidArgumentError } = load("errors");
  const { redeemWith } = api;
  const verify = (tx, id) => run(tx, VERIFY, [id]);

  yield [
    "an effect is committed with the use, once",
    async () => {
      const user = await scene.user();
      const { token, link } = await scene.link(mailroom, "activate", user);
      const seen = [];
      const redeem = redeemWith(mailroom, {
        async activate(tx, id, fields, used) {
          seen.push(id, fields.get("password"), used.token, used.action, used.request.url);
          await verify(tx, id);
        },
      });
      same(redeem.countsAttempts, true, "it counts");
      same(await redeem(link), "ok", "the first");
      same(await redeem(link), "used", "the second");
      const expected = [user.id, "correct horse", token, "activate", "https://app.example/"];
      same(seen.join(), expected.join(), "what an effect is given");
      same(await scene.isVerified(user.id), true, "verified");
    },
  ];
  yield [
    "of two presses at once one is taken",
    async () => {
      const user = await scene.user();
      const { link } = await scene.link(mailroom, "activate", user);
      let calls = 0;
      const redeem = redeemWith(mailroom, {
        activate: (tx, id) => {
          calls += 1;
          return verify(tx, id);
        },
      });
      const answers = await Promise.all([redeem(link), redeem(link), redeem(link)]);
      same(answers.toSorted().join(), "ok,used,used", "answers");
      same(calls, 1, "calls");
    },
  ];
  const own = () => new Error("the application's own");
  const undone = {
    "what it throws": { does: () => Promise.reject(own()), says: /the application's own/ },
    "what it throws at once": {
      does() {
        throw own();
      },
      says: /the application's own/,
    },
    "a statement that fails": {
      does: (tx) => run(tx, "DELETE FROM no_such_table", []),
      says: /no_such_table/,
    },
    "{ again }": { does: () => ({ again: "Choose a longer password." }), says: "again" },
    "a Response of an error": { does: () => new Response(null, { status: 409 }), says: "response" },
    "{ again } without a text": { does: () => ({ again: "" }), says: /again/ },
  };
  for (const [what, { does, says }] of Object.entries(undone)) {
    yield [
      `${what} takes everything back, and the link is good again`,
      async () => {
        const user = await scene.user();
        const { token, link, code } = await scene.link(mailroom, "recover", user);
        const failing = redeemWith(mailroom, {
          async recover(tx, id) {
            await verify(tx, id);
            return does(tx);
          },
        });
        // A wrong code first: what is taken back afterwards does not take it back.
        const wrong = {
          action: "recover",
          secret: link.secret,
          code: code === "00000" ? "1" : "00000",
        };
        same((await mailroom.redeem(wrong)).verdict, "wrong_code", "a wrong code");
        const answer = await failing(link);
        if (says instanceof RegExp) holds(says.test(inspect(answer.away)), inspect(answer));
        else same(says === "again" ? "again" in answer : answer.status === 409, true, "answer");
        same(await scene.isVerified(user.id), false, "not verified");
        same(await scene.attempts(token), 1, "the wrong code alone is counted");
        const redeem = redeemWith(mailroom, { recover: verify });
        same(await redeem(link), "ok", "afterwards");
        same(await scene.isVerified(user.id), true, "verified");
      },
    ];
  }
  yield [
    "a Response of success is committed, and is the answer",
    async () => {
      const user = await scene.user();
      const { link } = await scene.link(mailroom, "activate", user);
      const redeem = redeemWith(mailroom, {
        async activate(tx, id) {
          await verify(tx, id);
          return new Response(null, { status: 303, headers: { Location: "/welcome" } });
        },
      });
      same((await redeem(link)).status, 303, "answer");
      same(await scene.isVerified(user.id), true, "verified");
      same(await redeem(link), "used", "afterwards");
    },
  ];
  yield [
    "wrong codes are counted whatever effects do, and reach none",
    async () => {
      const user = await scene.user();
      const { token, link, code } = await scene.link(mailroom, "recover", user);
      let calls = 0;
      const redeem = redeemWith(mailroom, {
        recover() {
          calls += 1;
          throw own();
        },
      });
      const wrong = Object.create(link, { code: { value: code === "00000" ? "11111" : "00000" } });
      const asked = {};
      for (const name of ["action", "secret", "fields", "request", "bindingIsProven"])
        asked[name] = { value: link[name] };
      const press = Object.create({}, { ...asked, code: { value: wrong.code } });
      for (let number = 1; number <= 5; number += 1)
        same(await redeem(press), "wrong_code", `${number}`);
      same(await redeem(press), "too_many_attempts", "a sixth");
      same(await redeem(link), "too_many_attempts", "the right one");
      same(await scene.attempts(token), 5, "attempts");
      same(calls, 0, "calls of the effect");
    },
  ];
  yield [
    "a failed statement that an effect passes over takes everything back, and is told",
    async () => {
      const user = await scene.user();
      const { link } = await scene.link(mailroom, "activate", user);
      const redeem = redeemWith(mailroom, {
        async activate(tx, id) {
          await verify(tx, id);
          await run(tx, "SELECT 1 / 0", []).catch(() => {});
        },
      });
      const answer = await redeem(link);
      same(answer.away?.code, "25P02", inspect(answer));
      same(await scene.isVerified(user.id), false, "not verified");
      same((await mailroom.redeem(link)).verdict, "ok", "afterwards");
    },
  ];
  yield [
    "an effect that ends the transaction is told",
    async () => {
      const user = await scene.user();
      const { link } = await scene.link(mailroom, "activate", user);
      const redeem = redeemWith(mailroom, { activate: (tx) => run(tx, "ROLLBACK", []) });
      await thrownBy(redeem(link));
      same((await mailroom.redeem(link)).verdict, "ok", "afterwards");
    },
  ];
  yield [
    "of an effect that ends the transaction and throws nobody says that nothing was done",
    async () => {
      const user = await scene.user();
      const { link } = await scene.link(mailroom, "activate", user);
      const redeem = redeemWith(mailroom, {
        async activate(tx, id) {
          await verify(tx, id);
          await run(tx, "COMMIT", []);
          throw own();
        },
      });
      const error = await thrownBy(redeem(link));
      same(error.message, own().message, "what it has thrown");
      same(await scene.isVerified(user.id), true, "verified");
    },
  ];
  yield [
    "a link of an action without an effect is not used",
    async () => {
      const user = await scene.user();
      const { link } = await scene.link(mailroom, "activate", user);
      const { away } = await redeemWith(mailroom, { recover() {} })(link);
      holds(away instanceof InvalidArgumentError, inspect(away));
      const inherited = await redeemWith(mailroom, Object.create({ activate() {} }))(link);
      holds(inherited.away instanceof InvalidArgumentError, "inherited");
      same((await mailroom.redeem(link)).verdict, "ok", "afterwards");
    },
  ];
  const raise = (state) =>
    `DO $$ BEGIN RAISE EXCEPTION 'for a test' USING ERRCODE = '${state}'; END $$`;
  for (const state of ["40001", "40P01"]) {
    yield [
      `${state} repeats the transaction four times, then is away`,
      async () => {
        const user = await scene.user();
        const { link } = await scene.link(mailroom, "activate", user);
        let calls = 0;
        const redeem = (times) =>
          redeemWith(mailroom, {
            async activate(tx, id) {
              calls += 1;
              await verify(tx, id);
              if (calls <= times) await run(tx, raise(state), []);
            },
          });
        const answer = await redeem(9)(link);
        same(`${calls} ${answer.away?.code}`, `5 ${state}`, inspect(answer));
        same(await scene.isVerified(user.id), false, "not verified");
        calls = 0;
        same(await redeem(4)(link), "ok", "the fifth time");
        same(calls, 5, "calls");
      },
    ];
  }
  // A replica, a full disk, too few connections, a statement that took too long.
  for (const state of ["25006", "53100", "53300", "57014"]) {
    yield [
      `a server that answers ${state} is away, and the link stays good`,
      async () => {
        const user = await scene.user();
        const { link } = await scene.link(mailroom, "activate", user);
        await scene.rows(`
          CREATE OR REPLACE FUNCTION be_away() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'for a test' USING ERRCODE = '${state}'; END $$;
          DROP TRIGGER IF EXISTS be_away ON mailroom.issued_tokens;
          CREATE TRIGGER be_away BEFORE UPDATE ON mailroom.issued_tokens
            FOR EACH ROW EXECUTE FUNCTION be_away()`);
        try {
          const answer = await redeemWith(mailroom, { activate: verify })(link);
          same(answer.away?.code, state, inspect(answer));
        } finally {
          await scene.rows("DROP TRIGGER be_away ON mailroom.issued_tokens");
        }
        same((await mailroom.redeem(link)).verdict, "ok", "afterwards");
      },
    ];
  }
  yield [
    "a commit that fails tells no verdict, and uses nothing",
    async () => {
      const user = await scene.user();
      const { link } = await scene.link(mailroom, "activate", user);
      await scene.rows(`
        CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN RAISE check_violation USING MESSAGE = 'at the end'; END $$;
        DROP TRIGGER IF EXISTS refuse ON users;
        CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE OF verified_at ON users
          DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`);
      try {
        const error = await thrownBy(redeemWith(mailroom, { activate: verify })(link));
        same(`${error.name} ${error.code}`, "DatabaseError 23514", "error");
      } finally {
        await scene.rows("DROP TRIGGER refuse ON users");
      }
      same((await mailroom.redeem(link)).verdict, "ok", "afterwards");
    },
  ];
  const ends = {
    "in a statement": (tx) => run(tx, "SELECT pg_terminate_backend(pg_backend_pid())", []),
    "in a statement, which it catches": async (tx) => {
      await run(tx, "SELECT pg_terminate_backend(pg_backend_pid())", []).catch(() => {});
      await run(tx, "SELECT 1", []);
    },
    "between two statements": async (tx) => {
      await scene.endTransactions();
      await run(tx, "SELECT 1", []);
    },
    "before the commit": () => scene.endTransactions(),
    "before it throws": async () => {
      await scene.endTransactions();
      throw own();
    },
  };
  for (const [when, end] of Object.entries(ends)) {
    yield [
      `a connection that ends in an effect ${when} has done nothing, and ends no process`,
      async () => {
        const user = await scene.user();
        const { link } = await scene.link(mailroom, "activate", user);
        const redeem = redeemWith(mailroom, {
          async activate(tx, id) {
            await verify(tx, id);
            await end(tx);
          },
        });
        // Once the commit was sent, nobody knows.
        const answer = await redeem(link).catch((error) => {
          if (when !== "before the commit") throw error;
          return { away: error };
        });
        holds(answer.away instanceof Error, inspect(answer));
        // What is done about it later would end the process.
        await new Promise((resolve) => setTimeout(resolve, 100));
        same(await scene.isVerified(user.id), false, "not verified");
        same((await mailroom.redeem(link)).verdict, "ok", "afterwards");
      },
    ];
  }
  yield [
    "a handler asks to try again where the database is away, and tells why without a secret",
    async () => {
      const { createLinkHandler } = load("handler");
      const { createVerifier, createMemoryStore } = load(".");
      const { key, activation } = freshLinks();
      const [gone] = Object.values(away);
      const told = [];
      const handler = createLinkHandler({
        verifier: createVerifier({ keys: key }),
        store: createMemoryStore({ capacity: 100 }),
        redeem: redeemWith(gone, { activate() {} }),
        onError: (error) => told.push(error),
      });
      const press = () =>
        handler(
          new Request("https://app.example/activate", {
            method: "POST",
            headers: { Origin: "https://app.example" },
            body: new URLSearchParams({ token: activation }),
          }),
        );
      for (const times of [1, 2]) same((await press()).status, 503, `press ${times}`);
      same(told.length, 2, "told");
      holds(
        told.every(({ name }) => name === "DatabaseError"),
        inspect(told),
      );
      const secret = Buffer.from(activation, "base64url").subarray(14, 46).toString("hex");
      holds(!inspect(told, { showHidden: true }).includes(secret), "no secret");
    },
  ];
  yield [
    "a link of the database goes through a handler, with a code and a password",
    async () => {
      const { createLinkHandler } = load("handler");
      const { createVerifier, createMemoryStore } = load(".");
      const user = await scene.user();
      const { link, code } = await scene.link(mailroom, "recover", user);
      const { key } = freshLinks();
      const token = sign(Buffer.from(key, "hex"), 2, link.secret, code);
      const handler = createLinkHandler({
        verifier: createVerifier({ keys: key }),
        store: createMemoryStore({ capacity: 100 }),
        redeem: redeemWith(mailroom, {
          async recover(tx, id, fields) {
            if (fields.get("password").length < 10) return { again: "Choose a longer password." };
            await verify(tx, id);
          },
        }),
      });
      const press = async (password) => {
        const answer = await handler(
          new Request("https://app.example/recover", {
            method: "POST",
            headers: { Origin: "https://app.example" },
            body: new URLSearchParams({ token, code, password }),
          }),
        );
        return `${answer.status} ${(await answer.text()).includes("Choose a longer password.")}`;
      };
      same(await press("short"), "422 true", "a short password");
      same(await press("short"), "422 true", "once more");
      same(await press("correct horse"), "200 false", "a long one");
      same(await scene.isVerified(user.id), true, "verified");
    },
  ];
}
