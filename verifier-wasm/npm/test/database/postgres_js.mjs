import postgresJs from "postgres";

/** As the tests use a client whose `begin` gives a function with `unsafe`: postgres.js and Bun. */
export function ofSql({ sql, away, adapter, createMailroom, end }) {
  const made = Object.entries(away).map(([what, one]) => [what, createMailroom(adapter(one))]);
  return {
    client: sql,
    mailroom: createMailroom(adapter(sql)),
    away: Object.fromEntries(made),
    transaction: (work) => sql.begin(work),
    run: (tx, text, values) => tx.unsafe(text, values),
    end,
  };
}

export async function byPostgresJs({ server }, { postgresJs: adapter, createMailroom }) {
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
