import pg from "pg";

import { holds, same } from "../runtimes/suite/expect.mjs";
import { inWorker } from "./pg_workerd.mjs";

export async function open({ server }, { pg: adapter, createMailroom }, folder) {
  const made = [];
  const connect = (more = {}) => {
    const pool = new pg.Pool({ ...server, max: 10, ...more });
    pool.on("error", () => {});
    made.push(pool);
    return pool;
  };
  const pool = connect();
  const closed = connect();
  await closed.end();
  return {
    client: pool,
    mailroom: createMailroom(adapter(pool)),
    away: {
      "a server that is not there": createMailroom(adapter(connect({ host: "/nowhere" }))),
      "a port where nobody listens": createMailroom(
        adapter(connect({ host: "127.0.0.1", port: 1 })),
      ),
      "a pool that has ended": createMailroom(adapter(closed)),
      "a role that may not log in": createMailroom(adapter(connect({ user: "application" }))),
    },
    async transaction(work) {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        const result = await work(client);
        await client.query("COMMIT");
        return result;
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    },
    run: (client, text, values) => client.query(text, values),
    end: () => Promise.all(made.map((one) => one.ended || one.end())),
    elsewhere: ({ scene }) => inWorker(scene, folder),
    async *more({ api, scene, mailroom }) {
      yield [
        "a single client is no pool",
        () => {
          let reason;
          try {
            api.pg(new pg.Client(server));
          } catch (error) {
            ({ reason } = error);
          }
          same(reason, "ERR_INVALID_ARGUMENT", "a client");
        },
      ];
      yield [
        "a database without Mailroom has done nothing, and is told with what to do",
        async () => {
          const { link } = await scene.link(mailroom, "activate", await scene.user());
          const elsewhere = api.createMailroom(adapter(pool), { schema: "nowhere" });
          for (const given of [[{ activate() {} }], []]) {
            const { away } = await api.redeemWith(elsewhere, ...given)(link);
            same(away?.code, "3F000", "code");
            const expected =
              'schema "nowhere" does not exist: has mailroom dev or mailroom migrate up run there?';
            same(away.message, expected, "message");
          }
          same((await mailroom.redeem(link)).verdict, "ok", "afterwards");
        },
      ];
      yield [
        "a connection that is lost while an effect waits ends no process, and is not lent again",
        async () => {
          const user = await scene.user();
          const { link } = await scene.link(mailroom, "activate", user);
          const redeem = api.redeemWith(mailroom, {
            async activate(client) {
              const { rows } = await client.query("SELECT pg_backend_pid() AS id");
              await scene.rows("SELECT pg_terminate_backend($1, 60000)", [rows[0].id]);
              await new Promise((resolve) => setTimeout(resolve, 50));
            },
          });
          const { away } = await redeem(link);
          holds(away instanceof Error, "it is away");
          same((await mailroom.redeem(link)).verdict, "ok", "afterwards");
          same(pool.waitingCount, 0, "waiting");
          same(pool.idleCount, pool.totalCount, "lent");
        },
      ];
    },
  };
}
