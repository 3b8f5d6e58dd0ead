// `http` with `mailroom serve`, and what its description says of it.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { join } from "node:path";

import { freePort } from "../ports.mjs";
import { holds, same } from "../runtimes/suite/expect.mjs";
import { thrownBy } from "./functions.mjs";
import { elsewhere } from "./http_elsewhere.mjs";
import { openapi } from "./openapi.mjs";
import { linkOf } from "./scene.mjs";
import { ALL, called, serving } from "./serve_program.mjs";

const TOKEN = "mrst_of-all";

export async function open({ server: database }, { http, createMailroom, redeemWith }, folder) {
  const collector = await called();
  const tokens = {
    [TOKEN]: ALL,
    "of-redeem": { rights: ["redeem"] },
    "of-one-mail": { rights: ["enqueue"], rate: "1/d" },
    "of-one-each": { ...ALL, rate: "1/d" },
  };
  const wakes = ["--wake", new URL(collector.url).host];
  const server = await serving(join(folder, "serve"), database, tokens, wakes);
  const { host } = database;
  const nowhere = { host, port: 1, database: "none", user: "web" };
  const wakesNobody = ["--wake", "127.0.0.1:1"];
  const all = { [TOKEN]: ALL };
  const without = await serving(join(folder, "serve-away"), nowhere, all, wakesNobody);
  const connect = (url, token = TOKEN, more = {}) => createMailroom(http({ url, token, ...more }));
  const mailroom = connect(`${server.url}/`);
  return {
    client: undefined,
    mailroom,
    elsewhere: ({ scene }) =>
      elsewhere({ scene, mailroom, folder, url: server.url, away: without.url, token: TOKEN }),
    away: {
      "a server that is not there": connect(`http://127.0.0.1:${await freePort()}`),
      "a database that is not there": connect(without.url),
    },
    end: async () => {
      await server.end();
      await without.end();
      await collector.end();
      for (const log of [server.log(), without.log()])
        holds(!/example\.test|mrst_|abababab/.test(log), log);
    },
    async *more({ scene, load }) {
      yield* openapi({ scene, url: server.url, away: without.url, token: TOKEN });
      for (const [what, token, call, code] of [
        ["another token", "x", (one) => one.recheck("7"), "MAILROOM_TOKEN"],
        ["a right that is missing", "of-redeem", (one) => one.recheck("7"), "MAILROOM_RIGHT"],
      ]) {
        yield [
          `${what} is refused, and is not in what is thrown`,
          async () => {
            const error = await thrownBy(call(connect(server.url, token)));
            same(`${error.name} ${error.code}`, `DatabaseError ${code}`, String(error.stack));
            holds(!error.stack.includes("Bearer"), error.stack);
          },
        ];
      }
      yield [
        "a rate that is used up is told",
        async () => {
          const one = connect(server.url, "of-one-mail");
          const mail = { action: "notice", recipientEmail: "ada@example.test" };
          await one.enqueue(mail);
          same((await thrownBy(one.enqueue(mail))).code, "MAILROOM_RATE", "code");
        },
      ];
      const answering = {
        "a redirect": [
          (to, response) => response.writeHead(307, { location: to }).end(),
          "HTTP_307",
        ],
        "a page of a proxy": [(_, response) => response.writeHead(502).end("<html>"), "HTTP_502"],
        "a page of a proxy that is not about the database": [
          (_, response) => response.writeHead(503).end("<html>"),
          "HTTP_503",
        ],
        "an outcome that nobody knows": [
          (_, response) => response.writeHead(504).end('{"code":"MAILROOM_UNKNOWN","detail":"?"}'),
          "MAILROOM_UNKNOWN",
        ],
        "no answer": [() => {}, "MAILROOM_TIMEOUT"],
      };
      for (const [what, [answer, code]] of Object.entries(answering)) {
        yield [
          `${what} is no outage by which a link is shown as good, and carries the token nowhere`,
          async () => {
            const seen = [];
            const elsewhere = createServer((request, response) => {
              seen.push(request.headers.authorization);
              response.end("{}");
            }).listen(0, "127.0.0.1");
            await once(elsewhere, "listening");
            const to = `http://127.0.0.1:${elsewhere.address().port}/`;
            const between = createServer((_, response) => answer(to, response));
            await once(between.listen(0, "127.0.0.1"), "listening");
            try {
              const url = `http://127.0.0.1:${between.address().port}`;
              // Short where no answer comes.
              const more = code === "MAILROOM_TIMEOUT" ? { timeout: 0.5 } : {};
              const redeem = redeemWith(connect(url, TOKEN, more));
              const link = linkOf({ action: "activate", secret: new Uint8Array(32).fill(171) });
              const error = await thrownBy(redeem(link));
              same(`${error.name} ${error.code}`, `DatabaseError ${code}`, String(error.stack));
              same(seen.length, 0, "requests elsewhere");
            } finally {
              for (const one of [between, elsewhere]) {
                one.close();
                one.closeAllConnections();
              }
            }
          },
        ];
      }
      yield [
        "a fetch of the caller's is called in its place",
        async () => {
          const asked = [];
          const own = (url, init) => {
            asked.push(`${init.method} ${new URL(url).pathname} ${init.redirect}`);
            return fetch(url, init);
          };
          same(await connect(server.url, TOKEN, { fetch: own }).recheck("7"), 0, "answer");
          same(asked.join(), "POST /v1/recheck manual", "asked");
        },
      ];
      yield [
        "an answer is waited for longer than the server takes at most",
        async () => {
          const page = new URL("../../../../docs/reference/serve.md", import.meta.url);
          const [, most] = /^\| a call with .* \| (\d+) seconds;/m.exec(readFileSync(page, "utf8"));
          const { timeout } = AbortSignal;
          let waits;
          AbortSignal.timeout = (milliseconds) => {
            waits = milliseconds;
            return timeout.call(AbortSignal, milliseconds);
          };
          try {
            await connect(server.url).recheck("7");
          } finally {
            AbortSignal.timeout = timeout;
          }
          holds(waits > Number(most) * 1_000, `it waits ${waits} ms, the server ${most} s`);
        },
      ];
      yield [
        "limits of request are numbers on the way",
        async () => {
          // Without accounts of Mailroom's own there is no such function.
          const asked = {
            emailOrLogin: "ada",
            action: "recover",
            cooldown: 0.5,
            atMost: 2,
            per: 9,
          };
          const error = await thrownBy(connect(server.url).request(asked));
          same(error.code, "MAILROOM_SETUP", String(error.stack));
        },
      ];
      const { InvalidArgumentError } = load("errors");
      for (const [what, options] of Object.entries({
        "no address": { url: "mailroom", token: "token" },
        "an address with a query": { url: "https://mailroom.example/?x", token: "token" },
        "an address with a password": { url: "https://a:b@mailroom.example/", token: "token" },
        "another scheme": { url: "unix:/run/mailroom/serve.sock", token: "token" },
        "no token": { url: server.url },
        "a token with a line end": { url: server.url, token: "token\n" },
        "no function": { url: server.url, token: "token", fetch: {} },
        // Short, because it is refused.
        "no time": { url: server.url, token: "token", timeout: 0 },
        "another option": { url: server.url, token: "token", key: "x" },
      })) {
        yield [
          `${what} is refused`,
          async () => {
            const error = await thrownBy((async () => http(options))());
            holds(error instanceof InvalidArgumentError, String(error.stack));
          },
        ];
      }
    },
  };
}
