// Passes requests on to a service behind the edge, and says so if that is away.

import { isOfType, readBody } from "./body.ts";

const MOST = 8 * 1024;

/**
 * How long an answer may take to begin, in milliseconds; a change of the format restarts the
 * collector meanwhile.
 */
const PATIENCE = 150_000;

/**
 * @param part what the service is called if it does not answer
 * @param headers what is added for it
 */
export async function forward(
  request: Request,
  service: Fetcher,
  part: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  const { pathname, search, origin } = new URL(request.url);
  const page = request.headers.get("Origin");
  if (page !== null && page !== origin)
    return problem(403, "Only pages of this site may ask for that.");
  const init: RequestInit = { method: request.method, headers };
  if (request.method === "POST") {
    // Other sites can have a visitor's browser post forms and texts, not JSON.
    if (!isOfType(request, "application/json")) return problem(415, "Send application/json.");
    const body = await readBody(request, MOST);
    if (body === undefined) return problem(413, "That is too much.");
    Object.assign(init, { body, headers: { ...headers, "Content-Type": "application/json" } });
  } else if (request.method !== "GET") {
    return problem(405, "Only GET and POST are answered here.", { Allow: "GET, POST" });
  }
  const waiting = new AbortController();
  const timer = setTimeout(() => waiting.abort(), PATIENCE);
  try {
    return await service.fetch(`http://${part}${pathname}${search}`, {
      ...init,
      signal: waiting.signal,
    });
  } catch {
    const advice = "It is not known whether this was done; try again in a moment.";
    return problem(503, `The ${part} does not answer. ${advice}`);
  } finally {
    // The answer has begun; a stream of events goes on for as long as it likes.
    clearTimeout(timer);
  }
}

export function problem(
  status: number,
  message: string,
  headers: Record<string, string> = {},
): Response {
  return Response.json({ message }, { status, headers });
}
