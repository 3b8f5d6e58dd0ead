import { CamelCasePlugin, CompiledQuery, Kysely, PostgresDialect } from "kysely";
import pg from "pg";

import { same } from "../runtimes/suite/expect.mjs";

export async function open({ server }, { kysely: adapter, createMailroom }) {
  const made = [];
  const connect = (more = {}, plugins = []) => {
    const pool = new pg.Pool({ ...server, max: 10, ...more });
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    const db = new Kysely({ dialect: new PostgresDialect({ pool }), plugins });
    made.push(db);
    return db;
  };
  const db = connect();
  return {
    client: db,
    mailroom: createMailroom(adapter(db)),
    away: {
      "a server that is not there": createMailroom(adapter(connect({ host: "/nowhere" }))),
      "a role that may not log in": createMailroom(adapter(connect({ user: "application" }))),
    },
    transaction: (work) => db.transaction().execute(work),
    run: (tx, text, values) => tx.executeQuery(CompiledQuery.raw(text, values)),
    end: () => Promise.all(made.map((one) => one.destroy())),
    async *more({ scene }) {
      yield [
        "names of columns that a plugin writes otherwise are no matter",
        async () => {
          const other = createMailroom(adapter(connect({}, [new CamelCasePlugin()])));
          const user = await scene.user();
          const { link } = await scene.link(other, "activate", user);
          same((await other.redeem(link)).subjectId, user.id, "subject");
        },
      ];
    },
  };
}
