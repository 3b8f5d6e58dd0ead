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
