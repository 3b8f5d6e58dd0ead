// What the links of mails do in your database: `redeem` for createLinkHandler.
import { createMailroom, pg, redeemWith } from "mailroom-verifier/database";
import { Pool } from "pg";

const pool = new Pool({ connectionString: process.env.MAILROOM_DATABASE_URL });
// A restart of the server ends connections that nobody uses. Without a listener that ends the
// process.
pool.on("error", (error) => console.error(`A connection has ended: ${error.message}`));

/** `await mailroom.enqueue({ action: "activate", recipientEmail, subjectId })` asks for a mail. */
export const mailroom = createMailroom(pg(pool));

/** Uses a link, and does what it is for in the same transaction; `id` is the mail's `subjectId`. */
export const redeem = redeemWith(mailroom, {
  activate: (tx, id) => tx.query("UPDATE users SET verified_at = now() WHERE id = $1", [id]),
});
