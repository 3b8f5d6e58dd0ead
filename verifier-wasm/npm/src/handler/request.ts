import { readForm } from "./body.js";
import { cookie, cookiesOf } from "./cookies.js";

/** What a request asks for. */
export type Asked =
  /** A link is opened. */
  | {
      readonly kind: "show";
      readonly token: string;
      readonly from: "address" | "cookie" | "body";
      readonly url: URL;
    }
  /** The address has no token, unless behind `#`. */
  | { readonly kind: "empty" }
  /** The address came without its cookie. */
  | { readonly kind: "blocked" }
  /** A button was pressed. */
  | {
      readonly kind: "use";
      readonly token: string;
      readonly code: string | undefined;
      readonly fields: URLSearchParams;
    }
  /** Something else. */
  | { readonly kind: "refused"; readonly status: number; readonly headers?: Record<string, string> };

const COOKIE = "mailroom-link-";
const TOKEN = "token";
const CODE = "code";
/** Says that the form is that of a link whose token is behind `#`: it is opened, not used. */
const SHOW = "show";
/** In the address instead of the token: names the cookie that has it. */
const OPEN = "open";
/** In an address that a browser without script asks for. */
const SCRIPT = "script";

/** For how many seconds a browser may take to follow the redirect. */
const COOKIE_LIFE = 60;

const FORM_ONLY = { "Accept-Post": "application/x-www-form-urlencoded" };

/** Reads a request, and uses nothing. */
export async function readRequest(request: Request, origins: readonly string[]): Promise<Asked> {
  const url = new URL(request.url);
  const tokens = url.searchParams.getAll(TOKEN);
  if (request.method === "GET") return opened(request, url, tokens);
  if (request.method !== "POST") {
    return { kind: "refused", status: 405, headers: { Allow: "GET, POST" } };
  }
  if (!isFromSite(request.headers, url, origins)) return { kind: "refused", status: 403 };
  const fields = await readForm(request);
  if (typeof fields === "number") {
    return { kind: "refused", status: fields, headers: fields === 415 ? FORM_ONLY : {} };
  }
  const [token, ...others] = [...fields.getAll(TOKEN), ...tokens];
  const [code, ...codes] = fields.getAll(CODE);
  if (token === undefined || others.length > 0 || codes.length > 0) return { kind: "refused", status: 400 };
  if (fields.has(SHOW)) return { kind: "show", token, from: "body", url };
  return { kind: "use", token, code, fields };
}

function opened(request: Request, url: URL, tokens: readonly string[]): Asked {
  const [token, ...others] = tokens;
  if (others.length > 0) return { kind: "refused", status: 400 };
  if (token !== undefined) return { kind: "show", token, from: "address", url };
  const id = url.searchParams.get(OPEN);
  if (id === null) return { kind: "empty" };
  if (!/^[0-9a-f]{32}$/.test(id)) return { kind: "refused", status: 400 };
  const [kept] = cookiesOf(request.headers.get("Cookie"), COOKIE + id);
  return kept === undefined ? { kind: "blocked" } : { kind: "show", token: kept, from: "cookie", url };
}

/**
 * Whether a page of this site has sent the form. Of the origin the host counts alone: behind a proxy that ends TLS the
 * program knows no scheme. The header `Host` is what the browser has called; some frameworks put another name into the
 * address.
 */
function isFromSite(headers: Headers, url: URL, origins: readonly string[]): boolean {
  const origin = headers.get("Origin");
  // Browsers that name no origin say at least this.
  if (origin === null) return headers.get("Sec-Fetch-Site") === "same-origin";
  if (origins.includes(origin)) return true;
  try {
    const { protocol, host } = new URL(origin);
    return /^https?:$/.test(protocol) && [url.host, headers.get("Host")?.toLowerCase()].includes(host);
  } catch {
    return false;
  }
}

/** Whether the page says that it runs without script. */
export function isWithoutScript(url: URL): boolean {
  return url.searchParams.get(SCRIPT) === "no";
}

/** The same address, as a browser without script asks for it. */
export function withoutScript(url: URL): string {
  const query = new URLSearchParams(url.search);
  query.set(SCRIPT, "no");
  return `?${query}`;
}

/** The query without what this module has put there. Relative, since only the browser knows the whole address. */
export function cleanQuery(url: URL): string {
  return `?${queryWithout(url)}`;
}

/** The headers that move a token from the address to a cookie of a minute. */
export function moved(url: URL, token: string, id: string): Record<string, string> {
  const query = queryWithout(url);
  query.set(OPEN, id);
  return { Location: `?${query}`, "Set-Cookie": cookie(url, COOKIE + id, token, COOKIE_LIFE) };
}

/** The header that ends the cookie. */
export function cleared(url: URL): string {
  return cookie(url, COOKIE + (url.searchParams.get(OPEN) ?? ""), "", 0);
}

function queryWithout(url: URL): URLSearchParams {
  const query = new URLSearchParams(url.search);
  for (const name of [TOKEN, OPEN, SCRIPT]) query.delete(name);
  return query;
}
