// The origin: the application that has the accounts and the teams. Only the edge function calls it.

import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

import { Pool } from "pg";

import { type Answer, BadRequest, type Handler, readObject, run } from "../service/server.ts";
import { Accounts, type Action } from "./accounts.ts";
import { Database, type StillWanted } from "./database.ts";
import { Invitations } from "./invitations.ts";
import { readInvitation, readRegistration } from "./registration.ts";

/** Shorter passwords can be guessed. */
const LEAST = 16;

// Where and who is in the variables PGHOST, PGUSER and so on. The server itself ends what takes too
// long, so that a question is over before anybody stops waiting for it: together these times are
// below the time of the edge (edge/origin.ts).
// `query_timeout` is for a server that says nothing. A machine that does much else does not look
// like a database that is away.
const pool = new Pool({
  max: 16,
  connectionTimeoutMillis: 8_000,
  statement_timeout: 10_000,
  query_timeout: 11_000,
});
pool.on("error", () => console.error("a connection to the database has ended"));
const database = new Database(pool);
const accounts = new Accounts(database);
const invitations = new Invitations(database);
const password = Buffer.from(process.env.ORIGIN_PASSWORD ?? "");
if (password.length < LEAST) {
  console.error(
    `ORIGIN_PASSWORD has to be at least ${LEAST} characters, the same that the edge has`,
  );
  process.exit(2);
}

/** Calls that got here, for the page that shows the flow. */
const calls = { register: 0, request: 0, invite: 0 };

/** What is requested for an account. */
const isAction = (action: unknown): action is Action =>
  action === "activate" || action === "recover";

await run(
  {
    "POST /api/register": forEdge(async (body) => {
      calls.register += 1;
      const read = readRegistration(body.email, body.login);
      if ("field" in read) return { status: 422, body: read };
      if (!(await accounts.register(read))) {
        return {
          status: 409,
          body: { field: "login", message: "This login is taken. Choose another one." },
        };
      }
      return { status: 202, body: { message: `A mail is on its way to ${read.email}.` } };
    }),

    "POST /api/request": forEdge(async (body) => {
      calls.request += 1;
      const { action, name } = body;
      if (!isAction(action) || typeof name !== "string") {
        throw new BadRequest("Send a name, and the action activate or recover.", 422);
      }
      // PostgreSQL has no text with this character, so nobody has such a name.
      if (!name.includes("\0")) await accounts.request(name, action);
      return {
        status: 202,
        body: { message: "If there is such an account, a mail is on its way." },
      };
    }),

    "POST /api/invite": forEdge(async (body) => {
      calls.invite += 1;
      const read = readInvitation(body.team, body.email);
      if ("field" in read) return { status: 422, body: read };
      if (!(await invitations.invite(read.team, read.email))) {
        return {
          status: 422,
          body: { field: "email", message: "No mail can be sent to this address." },
        };
      }
      return { status: 202, body: { message: `An invitation is on its way to ${read.email}.` } };
    }),

    // As `mailroom serve` has it, so that the edge asks both alike.
    "POST /v1/redeem": forEdge(async ({ secret, action }, stillWanted) => {
      if (action !== "invite" || typeof secret !== "string" || !/^[0-9a-f]{64}$/.test(secret))
        throw new BadRequest("Send the secret of an invitation.", 422);
      return { body: await invitations.accept(Buffer.from(secret, "hex"), stillWanted) };
    }),

    "GET /calls": async () => ({ body: calls }),
  },
  { local: false },
);

/**
 * Nobody else has business here. The database would not believe them either,
 * but they would cost it time.
 */
function forEdge(
  answer: (body: Record<string, unknown>, stillWanted: StillWanted) => Promise<Answer>,
): Handler {
  return async (request, response) => {
    if (!isEdge(request)) throw new BadRequest("Only the edge may call this.", 401);
    const body = await readObject(request);
    return answer(body, () => !response.destroyed);
  };
}

function isEdge(request: IncomingMessage): boolean {
  const given = Buffer.from(request.headers.authorization?.replace(/^Bearer /, "") ?? "");
  return given.length === password.length && timingSafeEqual(given, password);
}
