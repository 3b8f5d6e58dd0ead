import postgresJs from "postgres";

import { ofSql } from "./of_sql.mjs";

export async function open({ server }, { postgresJs: adapter, createMailroom }) {
  const { host, port, user, database } = server;
  const made = [];
  const connect = (more = {}) => {
    const settings = { host, port, user, database, max: 10, onnotice() {}, ...more };
    const sql = postgresJs(settings);
    made.push(sql);
    return sql;
  };
  const ended = connect();
  await ended.end();
  return ofSql({
    sql: connect(),
    away: {
      "a server that is not there": connect({ host: "/nowhere" }),
      "a port where nobody listens": connect({ host: "127.0.0.1", port: 1 }),
      "a client that has ended": ended,
      "a role that may not log in": connect({ user: "application" }),
    },
    adapter,
    createMailroom,
    // Short: what is still open then is nobody's any more.
    end: () => Promise.all(made.map((sql) => sql.end({ timeout: 1 }))),
  });
}
