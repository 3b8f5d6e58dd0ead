import { readForm } from "./body.js";
import { digitsOf } from "./codes.js";
import { cookie, cookiesOf } from "./cookies.js";
import { tokenIn, tokensOf, withoutTokens } from "./mending.js";
import { isFromSite } from "./origin.js";
import type { Outcome } from "./outcomes.js";
import { newNonce } from "./policy.js";

/**
 * What a request asks for. `tokens`: what the token may be, the likeliest first, where a mail
 * program has changed it.
 */
export type Asked =
  /** A link is opened. */
  | {
      readonly kind: "show";
      readonly tokens: readonly string[];
      readonly from: "address" | "cookie" | "body";
      readonly url: URL;
      /** Whether a code was wrong before the redirect that leads here. */
      readonly isWrong?: boolean;
    }
  /** The address has no token, unless behind `#` or in the state of the page. */
  | { readonly kind: "empty" }
  /** The address came without its cookie. */
  | { readonly kind: "blocked" }
  /** A button was pressed. */
  | {
      readonly kind: "use";
      readonly tokens: readonly string[];
      readonly code: string | undefined;
      readonly browserCode: string | undefined;
      readonly fields: URLSearchParams;
    }
  /** A new link is asked for in place of one that does not work. */
  | { readonly kind: "renew"; readonly tokens: readonly string[] }
  /** A form that no page of this site has sent, as far as is known. */
  | { readonly kind: "foreign"; readonly url: URL }
  /** Something else. */
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly headers?: Record<string, string>;
    };

const COOKIE = "mailroom-link-";
const TOKEN = "token";
const CODE = "code";
const BROWSER_CODE = "browser_code";
/**
 * Says that the link is opened by the form, not used: its token is behind `#` or in the state of
 * the page.
 */
const SHOW = "show";
/** Says that the form asks for a new link. */
export const RENEW = "renew";
/** In the address instead of the token: names the cookie that has it. */
const OPEN = "open";
/** In an address that a browser without script asks for, and in the form that it sends. */
export const SCRIPT = "script";

/** For how many seconds a browser without script finds the link again. */
const COOKIE_LIFE = 60;

const FORM_ONLY = { "Accept-Post": "application/x-www-form-urlencoded" };

/** Reads a request, and uses nothing. */
export async function readRequest(request: Request, origins: readonly string[]): Promise<Asked> {
  const url = new URL(request.url);
  const tokens = tokensOf(url);
  if (request.method === "GET" || request.method === "HEAD") return opened(request, url, tokens);
  if (request.method !== "POST") {
    return { kind: "refused", status: 405, headers: { Allow: "GET, HEAD, POST" } };
  }
  if (!isFromSite(request.headers, url, origins)) return { kind: "foreign", url };
  return readPress(request, url, tokens);
}

/** Reads what a form has sent, whoever sent it. */
export async function readPress(
  request: Request,
  url: URL,
  inAddress: readonly string[] = tokensOf(url),
): Promise<Asked> {
  const fields = await readForm(request);
  if (typeof fields === "number") {
    return { kind: "refused", status: fields, headers: fields === 415 ? FORM_ONLY : {} };
  }
  const tokens = tokenIn(inAddress, fields.getAll(TOKEN));
  const codes = [CODE, BROWSER_CODE].map((name) => fields.getAll(name));
  if (tokens === undefined || codes.some((given) => given.length > 1))
    return { kind: "refused", status: 400 };
  if (fields.has(RENEW)) return { kind: "renew", tokens };
  if (fields.has(SHOW)) return { kind: "show", tokens, from: "body", url };
  // A field in which nothing was typed has no code: an action without one may come with it.
  const [code, browserCode] = codes.map(([given = ""]) => digitsOf(given) || undefined);
  return { kind: "use", tokens, code, browserCode, fields };
}

function opened(request: Request, url: URL, given: readonly string[]): Asked {
  if (given.length > 0) {
    const tokens = tokenIn(given);
    return tokens
      ? { kind: "show", tokens, from: "address", url }
      : { kind: "refused", status: 400 };
  }
  const id = url.searchParams.get(OPEN);
  if (id === null) return { kind: "empty" };
  if (!/^[0-9a-f]{32}(-wrong)?$/.test(id)) return { kind: "refused", status: 400 };
  const [kept] = cookiesOf(request.headers.get("Cookie"), COOKIE + id);
  return kept === undefined
    ? { kind: "blocked" }
    : { kind: "show", tokens: [kept], from: "cookie", url, isWrong: id.length > 32 };
}

/** Whether the page says that it runs without script. */
export function isWithoutScript(url: URL): boolean {
  return url.searchParams.get(SCRIPT) === "no";
}

/** The same address, as a browser without script asks for it. */
export function withoutScript(url: URL, token: string): string {
  const query = queryWithout(url);
  query.set(TOKEN, token);
  query.set(SCRIPT, "no");
  return `${nameIn(url)}?${query}`;
}

/**
 * The address without what this module has put there. Relative, since only the browser knows the
 * whole of it.
 */
export function cleanAddress(url: URL): string {
  return `${nameIn(url)}?${queryWithout(url)}`;
}

/** Moves a token from the address to a cookie of a minute. `end`: that of the cookie's name. */
export function moved(request: Request, url: URL, token: string, end = ""): Outcome {
  const id = newNonce() + end;
  const query = queryWithout(url);
  query.set(OPEN, id);
  const headers = {
    Location: `${nameIn(url)}?${query}`,
    "Set-Cookie": cookie(request, COOKIE + id, token, COOKIE_LIFE),
  };
  return { page: "moved", status: 303, headers };
}

/** The headers that end the cookies of a link. */
export function cleared(request: Request, token: string): string[] {
  const pairs = (request.headers.get("Cookie") ?? "").split(/;\s*/).map((pair) => pair.split("="));
  return pairs
    .filter(([name = "", value]) => name.startsWith(COOKIE) && value === token)
    .map(([name = ""]) => cookie(request, name, "", 0));
}

/**
 * The end of the path, where that has a query in it; else the path stays as it is. A name alone may
 * begin as the address of another site does.
 */
function nameIn(url: URL): string {
  const { path } = withoutTokens(url);
  return path === url.pathname ? "" : `.${path.slice(path.lastIndexOf("/"))}`;
}

function queryWithout(url: URL): URLSearchParams {
  const { query } = withoutTokens(url);
  for (const name of [OPEN, SCRIPT]) query.delete(name);
  return query;
}
