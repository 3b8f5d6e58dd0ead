// Node's own requests, of which Express and Fastify have theirs: by their shape, since nothing of Node is imported here.

import { InvalidArgumentError } from "../store.js";

/** What is used of a request of Node's. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** The whole path, where a framework shortens `url`. */
  readonly originalUrl?: string | undefined;
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  readonly socket?: object | null | undefined;
  readonly readableDidRead?: boolean | undefined;
  on(event: string, listener: (value: never) => void): unknown;
  pause(): unknown;
  resume(): unknown;
}

/** What is used of an answer of Node's. */
export interface NodeResponse {
  statusCode: number;
  setHeader(name: string, value: string | string[]): unknown;
  end(body?: Uint8Array): unknown;
}

/** What `node:http` and Express call for each request. */
export type NodeListener = (request: NodeRequest, response: NodeResponse) => void;

/** @internal What the entry calls `toNodeListener`. */
export function makeNodeListener(handler: unknown): NodeListener {
  if (typeof handler !== "function") {
    throw new InvalidArgumentError("toNodeListener takes what createLinkHandler has returned");
  }
  return (request, response) => {
    answer(handler as (request: Request) => Promise<Response>, request, response).catch(() => {
      response.statusCode = 500;
      response.end();
    });
  };
}

async function answer(
  handler: (request: Request) => Promise<Response>,
  given: NodeRequest,
  sent: NodeResponse,
): Promise<void> {
  const request = requestOf(given);
  const answered = request && (await handler(request));
  sent.statusCode = answered?.status ?? 400;
  for (const [name, value] of answered?.headers ?? []) {
    if (name !== "set-cookie") sent.setHeader(name, value);
  }
  const cookies = answered?.headers.getSetCookie() ?? [];
  if (cookies.length > 0) sent.setHeader("Set-Cookie", cookies);
  // The rest of a body that is too slow is not waited for.
  if (sent.statusCode === 408) sent.setHeader("Connection", "close");
  sent.end(answered?.body ? new Uint8Array(await answered.arrayBuffer()) : undefined);
}

/** Nothing if the request has no address that is one. */
function requestOf(given: NodeRequest): Request | undefined {
  const { method = "GET", originalUrl, url = originalUrl, headers, socket } = given;
  const path = originalUrl ?? url ?? "";
  const { ":authority": authority, host = authority } = headers;
  if (!path.startsWith("/") || typeof host !== "string" || !/^[\w.:[\]-]+$/.test(host)) return undefined;
  const scheme = (socket as { encrypted?: boolean } | null | undefined)?.encrypted ? "https" : "http";
  const all = new Headers();
  for (const [name, values] of Object.entries(headers)) {
    if (name.startsWith(":")) continue;
    for (const value of [values ?? []].flat()) all.append(name, value);
  }
  try {
    if (method === "GET" || method === "HEAD")
      return new Request(`${scheme}://${host}${path}`, { method, headers: all });
    const body = bodyOf(given);
    // Methods that `Request` forbids are refused as others are.
    const known = /^(CONNECT|TRACE|TRACK)$/.test(method) ? "OPTIONS" : method;
    const init = { method: known, headers: all, body, duplex: "half" };
    return new Request(`${scheme}://${host}${path}`, init as RequestInit);
  } catch {
    return undefined;
  }
}

function bodyOf(request: NodeRequest): ReadableStream<Uint8Array> {
  let over = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const fail = () => {
        if (over) return;
        over = true;
        controller.error(
          new Error(
            "the request body was already read, or the client left: mount this listener before any body parser",
          ),
        );
      };
      if (request.readableDidRead) {
        fail();
        return;
      }
      request.on("data", (chunk: Uint8Array) => {
        if (over) return;
        controller.enqueue(new Uint8Array(chunk));
        if ((controller.desiredSize ?? 0) <= 0) request.pause();
      });
      request.on("end", () => {
        if (over) return;
        over = true;
        controller.close();
      });
      request.on("error", fail);
      request.on("close", fail);
      request.pause();
    },
    pull() {
      request.resume();
    },
    cancel() {
      // The rest is thrown away, so that the answer reaches whoever is still sending.
      over = true;
      request.resume();
    },
  });
}
