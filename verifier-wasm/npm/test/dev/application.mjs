// An application: people register, get a mail and open its link.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";

import pg from "pg";

const USERS = new URL("../../../../docs/examples/existing_users.sql", import.meta.url);

const FORM = `<!doctype html><title>Register</title>
<form method="post">
<label>Address <input name="email" type="email"></label><button>Register</button>
</form>`;

/** Serves it while `use` runs. */
export async function application(load, use) {
  const { createMailroom, pg: adapter, redeemWith } = load("database");
  const { createLinkHandler, toNodeListener } = load("handler");
  const { createMemoryStore, createVerifier } = load(".");
  const pool = new pg.Pool({ connectionString: process.env.MAILROOM_DATABASE_URL, max: 4 });
  const mailroom = createMailroom(adapter(pool));
  let links;
  const register = async (email) => {
    const insert = "INSERT INTO users (email) VALUES ($1) RETURNING id::text";
    const { rows } = await pool.query(insert, [email]);
    const subjectId = rows[0].id;
    await mailroom.enqueue({ action: "activate", recipientEmail: email, subjectId });
  };
  const server = createServer(async (request, response) => {
    if (request.url !== "/register") return links(request, response);
    let body = "";
    for await (const part of request) body += part;
    const email = new URLSearchParams(body).get("email");
    if (email !== null) await register(email);
    response.setHeader("Content-Type", "text/html");
    response.end(email === null ? FORM : "<!doctype html><title>Sent</title>Look at your mails.");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use({
      address: `http://127.0.0.1:${server.address().port}`,
      mailroom,
      rows: async (text, values) => (await pool.query(text, values)).rows,
      /** Once the schema is there. */
      async prepare(keys) {
        await pool.query(readFileSync(USERS, "utf8"));
        const redeem = redeemWith(mailroom, {
          activate: (tx, id) =>
            tx.query("UPDATE users SET verified_at = now() WHERE id = $1", [id]),
        });
        const verifier = createVerifier({ keys });
        const store = createMemoryStore({ capacity: 1_000 });
        links = toNodeListener(createLinkHandler({ verifier, store, redeem }));
      },
    });
  } finally {
    server.closeAllConnections();
    server.close();
    await pool.end();
  }
}
