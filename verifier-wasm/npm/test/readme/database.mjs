// `./database.js` of the book's guides: better-auth's tables by its own adapter, and the rows of
// links.

import { memoryAdapter } from "better-auth/adapters/memory";

export const tables = { user: [], session: [], account: [], verification: [] };
export const database = memoryAdapter(tables);

/** What was asked for, in order. */
export const mails = [];
export const activated = [];
export const enqueued = [];

const rows = new Map();

export const sendMail = async (to, url) => {
  mails.push({ to, url });
};
export const activate = async (id) => {
  activated.push(id);
};
export const enqueue = async (action, email, name, id) => {
  enqueued.push({ action, email, name, id });
};

/** Makes the row of a link. */
export const add = (secret, id) => rows.set(secret, { id, used: false });

export async function redeem({ secret }) {
  const row = rows.get(Buffer.from(secret).toString("hex"));
  if (row === undefined) return "unknown";
  if (row.used) return "used";
  row.used = true;
  activated.push(row.id);
  for (const user of tables.user) if (user.id === row.id) user.emailVerified = true;
  return "ok";
}
