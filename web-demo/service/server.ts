// A service of the demonstration: answers JSON on a port of this machine, and tells the port.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What a handler answers, unless it has written to the response itself. */
export interface Answer {
  readonly status?: number;
  readonly body: unknown;
}

export type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
) => Promise<Answer | undefined>;

/** A request that cannot be answered as it is; the message is for whoever sent it. */
export class BadRequest extends Error {
  readonly status: number;
  /** Sent beside the message. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(message: string, status = 400, facts = {}) {
    super(message);
    this.status = status;
    this.facts = facts;
  }
}

/** Something that is needed to answer is away for the moment. */
export class Unavailable extends BadRequest {
  /** @param facts as `mailroom serve` says it, if it is certain that nothing was changed */
  constructor(message: string, facts: { readonly code?: "MAILROOM_AWAY" } = {}) {
    super(message, 503, facts);
  }
}

/** Who may call a service. */
export interface Callers {
  /**
   * Whether it is only for callers on this machine, by one of its names. False where a password
   * says who may.
   */
  readonly local: boolean;
}

const ANYBODY_HERE: Callers = { local: true };

/** Listens on 127.0.0.1, on any free port unless one is given, and returns the port. */
export async function listen(
  routes: Record<string, Handler>,
  port = 0,
  callers = ANYBODY_HERE,
): Promise<number> {
  const server = createServer(
    (request, response) => void answer(routes, callers, request, response),
  );
  // A stream of events has no end.
  server.requestTimeout = 0;
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Says on which port a program listens, as workerd does. */
export function announce(socket: string, port: number): void {
  process.stdout.write(`${JSON.stringify({ event: "listen", socket, port })}\n`);
}

/** For a program of its own, which announces its port. The stage's `supervise.sh` ends it. */
export async function run(routes: Record<string, Handler>, callers = ANYBODY_HERE): Promise<void> {
  const port = await listen(routes, Number(process.env.PORT ?? 0), callers);
  announce("http", port);
}

async function answer(
  routes: Record<string, Handler>,
  callers: Callers,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    refusePages(request, callers);
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    const handler = routes[`${request.method} ${url.pathname}`];
    if (handler === undefined) throw new BadRequest("There is nothing here.", 404);
    const given = await handler(request, response, url);
    if (given !== undefined) send(response, given.status ?? 200, given.body);
  } catch (error) {
    if (error instanceof BadRequest) {
      send(response, error.status, { message: error.message, ...error.facts });
    } else {
      // A stack of this program; what was sent is in no error of its own.
      console.error(error instanceof Error ? (error.stack ?? error.name) : String(error));
      send(response, 500, {
        message: "Something went wrong here. It is not known whether this was done.",
      });
    }
  }
}

/** What the edge calls the services behind it, and this machine. */
const NAMES = /^(127\.0\.0\.1|localhost|demonstration)(:\d+)?$/;

/**
 * Programs ask here, never pages: a browser would lend any page that is open in it this machine's
 * address. It names the page's origin with whatever that posts; a page that has its own name lead
 * here asks for that name; and what a page can post without asking first is no JSON.
 */
function refusePages(request: IncomingMessage, { local }: Callers): void {
  const { host = "", origin, "content-type": type = "" } = request.headers;
  if (origin !== undefined) throw new BadRequest("No page may call this.", 403);
  if (local && !NAMES.test(host)) throw new BadRequest("Nothing of this name is here.", 421);
  const [said = ""] = type.split(";");
  if (request.method === "POST" && said.trim().toLowerCase() !== "application/json") {
    throw new BadRequest("Send application/json.", 415);
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.end();
    return;
  }
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(text),
  });
  response.end(text);
}

const MOST = 1024 * 1024;

/** The object that a request carries as JSON. */
export async function readObject(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MOST) throw new BadRequest("That is too much.", 413);
    chunks.push(chunk);
  }
  let value: unknown;
  try {
    value = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw new BadRequest("That is no JSON.");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new BadRequest("Send a JSON object.");
  return value as Record<string, unknown>;
}
