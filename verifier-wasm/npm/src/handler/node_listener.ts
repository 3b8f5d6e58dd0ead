// Adapts Node's `IncomingMessage`, also Express's and Fastify's, to the Fetch API. It is typed by
// its shape, so that this file imports nothing of Node.

import { InvalidArgumentError } from "../errors/errors.js";
import { MOST_BYTES } from "./body.js";

/** What is used of a request of Node's. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** The whole path, where a framework shortens `url`. */
  readonly originalUrl?: string | undefined;
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  readonly socket?: object | null | undefined;
  readonly readableDidRead?: boolean | undefined;
  /** What a parser has made of the body: bytes, text, or an object of its fields. */
  readonly body?: unknown;
  /** The body as it came, where something keeps that. */
  readonly rawBody?: unknown;
  /** Node's own request, in those of Fastify and Koa. */
  readonly raw?: unknown;
  readonly req?: unknown;
  on?(event: string, listener: (value: unknown) => void): unknown;
  pause?(): unknown;
  resume?(): unknown;
  destroy?(): unknown;
}

/** Node's own, whose body can be read. */
type Readable = NodeRequest & Required<Pick<NodeRequest, "on" | "pause" | "resume">>;

/** How many bytes of a body that is refused are taken, so that its sender reads why. */
const MOST_THROWN_AWAY = 4 * 1024 * 1024;

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
    answer(handler as (request: Request) => Promise<Response>, request, response)
      .catch(() => {
        response.statusCode = 500;
        response.end();
      })
      // An answer that can no longer be given ends this request, and not the process.
      .catch(() => undefined);
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
  // The rest of a body that is too slow or too large is not waited for.
  if (sent.statusCode === 408 || sent.statusCode === 413) sent.setHeader("Connection", "close");
  sent.end(answered?.body ? new Uint8Array(await answered.arrayBuffer()) : undefined);
}

/** Nothing if the request has no address that is one. */
function requestOf(given: NodeRequest): Request | undefined {
  const { method = "GET", originalUrl, url = originalUrl, headers, socket } = given;
  const { ":authority": authority, host = authority } = headers;
  const path = pathOf(originalUrl ?? url ?? "");
  if (!path.startsWith("/") || typeof host !== "string" || !/^[\w.:[\]-]+$/.test(host))
    return undefined;
  const scheme = (socket as { encrypted?: boolean } | null | undefined)?.encrypted
    ? "https"
    : "http";
  const all = new Headers();
  for (const [name, values] of Object.entries(headers)) {
    if (name.startsWith(":")) continue;
    for (const value of [values ?? []].flat()) all.append(name, value);
  }
  try {
    const address = `${scheme}://${host}${path}`;
    if (method === "GET" || method === "HEAD")
      return new Request(address, { method, headers: all });
    // Methods that `Request` forbids are refused as others are.
    const known = /^(CONNECT|TRACE|TRACK)$/.test(method) ? "OPTIONS" : method;
    const body = bodyFor(given);
    if (typeof body === "string") {
      // The body is not the one that these describe.
      for (const name of ["Content-Length", "Transfer-Encoding"]) all.delete(name);
    }
    const init = { method: known, headers: all, body: body ?? " ", duplex: "half" };
    const request = new Request(address, init as RequestInit);
    // One whose body is gone is that for the handler as well, which says so.
    if (body === undefined) request.text().catch(() => undefined);
    return request;
  } catch {
    return undefined;
  }
}

/**
 * The path of a target in absolute form (RFC 9112, section 3.2.2); its host is in the header
 * `Host`, too.
 */
function pathOf(target: string): string {
  const [, path] = /^https?:\/\/[^/?#]*(.*)$/i.exec(target) ?? [];
  if (path === undefined) return target;
  return path.startsWith("/") ? path : `/${path}`;
}

/** The body, or what a parser has left of it; nothing if it is gone. */
function bodyFor(given: NodeRequest): ReadableStream<Uint8Array> | string | undefined {
  const own = [given, given.raw, given.req].find(isReadable);
  // Requests that imitate Node's have no stream, or one that does not say whether it was read.
  const wasRead =
    own === undefined || (own.readableDidRead ?? hasFields(given.rawBody ?? given.body));
  if (!wasRead) return streamOf(own);
  return textOf(given.rawBody) ?? textOf(own?.rawBody) ?? textOf(given.body) ?? textOf(own?.body);
}

function isReadable(request: unknown): request is Readable {
  return typeof (request as Partial<Readable> | null | undefined)?.on === "function";
}

function hasFields(body: unknown): boolean {
  return (textOf(body) ?? "") !== "";
}

/** A body that was read, as the text of a form again. */
function textOf(body: unknown): string | undefined {
  if (typeof body === "string") return body;
  if (body instanceof Uint8Array) return new TextDecoder().decode(body);
  if (typeof body !== "object" || body === null) return undefined;
  const fields = new URLSearchParams();
  let length = 0;
  // Lists are fields that came more than once, objects in objects what some parsers make of `a[b]`.
  const append = (name: string, value: unknown, depth: number): void => {
    // A form that is longer is refused, and the names of objects in objects repeat.
    if (length > MOST_BYTES || value === undefined || value === null) return;
    if (typeof value !== "object") {
      const text = String(value);
      length += name.length + text.length;
      fields.append(name, text);
    } else if (depth < 8) {
      for (const [key, inner] of Object.entries(value)) {
        const within = name === "" ? key : `${name}[${key}]`;
        append(Array.isArray(value) ? name : within, inner, depth + 1);
      }
    }
  };
  append("", body, 0);
  return fields.toString();
}

function streamOf(request: Readable): ReadableStream<Uint8Array> {
  let over = false;
  let thrownAway = 0;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const fail = () => {
        if (over) return;
        over = true;
        controller.error(new Error("the client has left"));
      };
      request.on("data", (given) => {
        const chunk = given as Uint8Array;
        if (over) {
          // A client that never ends is not listened to for ever; one that ends soon reads the
          // answer.
          thrownAway += chunk.length;
          if (thrownAway > MOST_THROWN_AWAY) request.destroy?.();
          return;
        }
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
