import { sql } from "drizzle-orm";
import { drizzle as overPg } from "drizzle-orm/node-postgres";
import { drizzle as overPostgresJs } from "drizzle-orm/postgres-js";
import pg from "pg";
import postgresJs from "postgres";

import { same } from "../runtimes/suite/expect.mjs";
import { thrownBy } from "./functions.mjs";

/** A statement with the values of $1 and so on. */
function written(text, values = []) {
  const parts = text.split(/\$\d/);
  return sql.join(
    parts.flatMap((part, at) =>
      at === 0 ? [sql.raw(part)] : [sql`${values[at - 1]}`, sql.raw(part)],
    ),
  );
}

export async function open({ server }, { drizzle: adapter, createMailroom }) {
  const { host, port, user, database } = server;
  const pools = [];
  const connect = (more = {}) => {
    const pool = new pg.Pool({ ...server, max: 10, ...more });
    // A connection that is lost in a transaction is nobody's but the pool's.
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    pools.push(pool);
    return overPg(pool);
  };
  const client = postgresJs({ host, port, user, database, onnotice() {} });
  const db = connect();
  return {
    client: db,
    mailroom: createMailroom(adapter(db)),
    away: {
      "a server that is not there": createMailroom(adapter(connect({ host: "/nowhere" }))),
      "a role that may not log in": createMailroom(adapter(connect({ user: "application" }))),
    },
    transaction: (work) => db.transaction(work),
    run: (tx, text, values) => tx.execute(written(text, values)),
    end: () => Promise.all([...pools.map((pool) => pool.end()), client.end()]),
    async *more({ scene, load }) {
      yield [
        "over postgres.js it is the same",
        async () => {
          const other = createMailroom(adapter(overPostgresJs(client)));
          const user = await scene.user();
          const { link } = await scene.link(other, "activate", user);
          const redeem = load("database").redeemWith(other, {
            activate: (tx, id) =>
              tx.execute(sql`UPDATE users SET verified_at = now() WHERE id = ${id}`),
          });
          same(await redeem(link), "ok", "answer");
          same(await scene.isVerified(user.id), true, "verified");
          const error = await thrownBy(
            other.enqueue({ action: "notice", recipientEmail: "nobody" }),
          );
          same(error.code, "22023", "error");
        },
      ];
    },
  };
}
