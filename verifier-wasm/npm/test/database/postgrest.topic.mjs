// The functions of docs/postgrest.sql, by roles as Supabase has them; PostgREST is a
// stand-in.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

import { freePort } from "../ports.mjs";
import { same } from "../runtimes/suite/expect.mjs";
import { within } from "../waiting.mjs";
import { thrownBy } from "./functions.mjs";
import { PostgrestServer } from "./postgrest_server.mjs";

const EXAMPLE = fileURLToPath(new URL("../../../../docs/postgrest.sql", import.meta.url));

/** Supabase gives all of them every new function of the schema. */
const ROLES = `
  CREATE ROLE anon NOLOGIN;
  CREATE ROLE authenticated NOLOGIN;
  CREATE ROLE service_role NOLOGIN BYPASSRLS;
  ALTER DEFAULT PRIVILEGES IN SCHEMA public
    GRANT ALL ON FUNCTIONS TO anon, authenticated, service_role;
`;

export async function open(scene, { postgrest, createMailroom }) {
  const [{ there }] = await scene.rows("SELECT to_regrole('anon') IS NOT NULL AS there");
  if (!there) await scene.rows(ROLES);
  const [{ made }] = await scene.rows("SELECT to_regproc('mailroom_redeem') IS NOT NULL AS made");
  if (!made) await scene.rows(readFileSync(EXAMPLE, "utf8"));
  await scene.rows("GRANT application TO service_role");
  const roles = {
    "key-of-service": "service_role",
    "key-of-anon": "anon",
    "key-of-user": "authenticated",
  };
  const server = await PostgrestServer.start({ ...scene.server, user: "postgres" }, roles);
  const connect = (key, url = server.url) => createMailroom(postgrest({ url, key }));
  return {
    client: undefined,
    mailroom: connect("key-of-service"),
    away: {
      "a server that is not there": connect(
        "key-of-service",
        `http://127.0.0.1:${await freePort()}`,
      ),
    },
    end: () => server.end(),
    async *more({ scene, load }) {
      for (const [role, key] of [
        ["anon", "key-of-anon"],
        ["authenticated", "key-of-user"],
      ]) {
        yield [
          `${role} is refused, also where it may call the functions`,
          async () => {
            const other = connect(key);
            const calls = [
              () => other.redeem({ action: "activate", secret: new Uint8Array(32) }),
              () => other.enqueue({ action: "notice", recipientEmail: "ada@example.test" }),
              () => other.browserCode(new Uint8Array(16)),
              () => other.cancel("7"),
              () => other.cancelSubject("7"),
              () => other.recheck("7"),
            ];
            for (const call of calls) same((await thrownBy(call())).code, "42501", "refused");
            await scene.rows(`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO ${role}`);
            for (const call of calls) same((await thrownBy(call())).code, "42501", "refused");
            await scene.rows(`REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM ${role}`);
          },
        ];
      }
      yield [
        "another key is refused, and is not in what is thrown",
        async () => {
          const error = await thrownBy(connect("a-wrong-key").recheck("7"));
          same(`${error.code} ${/wrong-key/.test(error.stack)}`, "PGRST301 false", "error");
        },
      ];
      yield [
        "a server that never answers is not waited for without end",
        async () => {
          const silent = createServer(() => {}).listen(0, "127.0.0.1");
          await once(silent, "listening");
          try {
            const url = `http://127.0.0.1:${silent.address().port}`;
            // Short, because no answer comes.
            const call = createMailroom(postgrest({ url, key: "key", timeout: 0.5 })).recheck("7");
            same((await thrownBy(within("an error", call))).code, "MAILROOM_TIMEOUT", "error");
          } finally {
            silent.close();
            silent.closeAllConnections();
          }
        },
      ];
      const { InvalidArgumentError } = load("errors");
      for (const [what, options] of Object.entries({
        "no address": { url: "project", key: "key" },
        "an address with a query": { url: "https://project.example/?apikey=x", key: "key" },
        "no key": { url: server.url },
        "a key with a line end": { url: server.url, key: "key\n" },
        // Short, because it is refused.
        "no time": { url: server.url, key: "key", timeout: 0 },
        "another option": { url: server.url, key: "key", role: "anon" },
      })) {
        yield [
          `${what} is refused`,
          async () => {
            const error = await thrownBy((async () => postgrest(options))());
            same(error instanceof InvalidArgumentError, true, String(error.stack));
          },
        ];
      }
    },
  };
}
