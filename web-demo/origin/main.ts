// The origin: the application that has the accounts. Only the edge function calls it.

import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

import { Pool } from "pg";

import { type Answer, BadRequest, type Handler, readObject, run } from "../service/server.ts";
import { Accounts, type TokenAction } from "./accounts.ts";
import { readRegistration } from "./registration.ts";

// Where and who is in the variables PGHOST, PGUSER and so on.
const pool = new Pool({ max: 16, connectionTimeoutMillis: 3_000, query_timeout: 4_000 });
pool.on("error", () => console.error("a connection to the database has ended"));
const accounts = new Accounts(pool);
const password = Buffer.from(process.env.ORIGIN_PASSWORD ?? "");

/** Calls that got here, for the page that shows the flow. */
const calls = { register: 0, request: 0, redeem: 0 };

const ACTIONS: Record<string, TokenAction> = { activate: "activation", recover: "password_recovery" };

await run({
  "POST /api/register": forEdge(async (body) => {
    calls.register += 1;
    const read = readRegistration(body.email, body.login);
    if ("field" in read) return { status: 422, body: read };
    if (!(await accounts.register(read))) {
      return { status: 409, body: { field: "login", message: "This login is taken. Choose another one." } };
    }
    return { status: 202, body: { message: `A mail is on its way to ${read.email}.` } };
  }),

  "POST /api/request": forEdge(async (body) => {
    calls.request += 1;
    const action = ACTIONS[String(body.action)];
    const name = body.name;
    if (action === undefined || typeof name !== "string") {
      throw new BadRequest("Send a name, and the action activate or recover.", 422);
    }
    // PostgreSQL has no text with this character, so nobody has such a name.
    if (!name.includes("\0")) await accounts.request(name, action);
    return { status: 202, body: { message: "If there is such an account, a mail is on its way." } };
  }),

  "POST /redeem": forEdge(async (body) => {
    calls.redeem += 1;
    const { secret, action, code } = body;
    const wanted = ACTIONS[String(action)];
    if (typeof secret !== "string" || !/^[0-9a-f]{64}$/.test(secret) || wanted === undefined) {
      throw new BadRequest("Send a secret and an action.", 422);
    }
    const typed = typeof code === "string" ? code : null;
    return { body: { verdict: await accounts.redeem(Buffer.from(secret, "hex"), wanted, typed) } };
  }),

  "GET /calls": async () => ({ body: calls }),
});

/** Nobody else has business here. The database would not believe them either, but they would cost it time. */
function forEdge(answer: (body: Record<string, unknown>) => Promise<Answer>): Handler {
  return async (request) => {
    if (!isEdge(request)) throw new BadRequest("Only the edge may call this.", 401);
    return answer(await readObject(request));
  };
}

function isEdge(request: IncomingMessage): boolean {
  const given = Buffer.from(request.headers.authorization?.replace(/^Bearer /, "") ?? "");
  return password.length > 0 && given.length === password.length && timingSafeEqual(given, password);
}
