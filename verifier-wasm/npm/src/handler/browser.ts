import { described } from "../arguments/described.js";
import { readOptions } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { Bytes } from "../token/types.js";
import { encode } from "../web/encoding.js";
import { cookie, cookiesOf } from "./cookies.js";
import { type HeaderReader, isFromSite, readOrigins } from "./origin.js";
import { newNonce } from "./policy.js";

/** The cookie by which a browser is known again (token-format.md, "Bound form"). */
const BROWSER = "__Host-mailroom-browser";

/**
 * For how many seconds it is kept after the last link that was asked for: longer than links are
 * valid.
 */
const BROWSER_LIFE = 30 * 86_400;

/** The cookie that tells browsers apart in which links of others are opened. */
const VISITOR = "mailroom-visitor";

/** What {@link bindBrowser} returns. */
export interface BrowserBinding {
  /** 16 bytes for the database, which gives them to the signer. */
  readonly binding: Bytes;
  /** The header `Set-Cookie` to answer with. A browser that has the cookie keeps its value. */
  readonly setCookie: string;
}

/** What is read of a request, one of the Fetch API or of Node. */
export interface AskingRequest {
  readonly url?: string | undefined;
  readonly headers: Headers | { readonly [name: string]: string | string[] | undefined };
}

/** @internal What the entry calls `bindBrowser`. */
export async function bindingFor(
  request: unknown,
  options: unknown,
): Promise<BrowserBinding | undefined> {
  const [origins] = options === undefined ? [] : readOptions(options, ["origins"]);
  const { url, headers } = readAsking(request);
  // Browsers send no cookie with the form of another site, so the nonce of whoever it is for would
  // be replaced.
  if (!isFromSite(headers, url, readOrigins(origins))) return undefined;
  const cookies = headers.get("Cookie");
  const sent = nonceOf(cookies);
  // Of the 43rd character two bits stand for nothing: those of 32 bytes end in one of sixteen
  // characters.
  const nonce =
    sent !== undefined && /^[\w-]{42}[AEIMQUYcgkosw048]$/.test(sent)
      ? sent
      : encode(crypto.getRandomValues(new Uint8Array(32)));
  const hashed = new TextEncoder().encode(`mailroom/browser\0${nonce}`);
  const digest = await crypto.subtle.digest("SHA-256", hashed);
  const attributes = `Max-Age=${BROWSER_LIFE}; Path=/; Secure; HttpOnly; SameSite=Lax`;
  return Object.freeze({
    binding: new Uint8Array(digest.slice(0, 16)),
    setCookie: `${BROWSER}=${nonce}; ${attributes}`,
  });
}

/** The address and the headers of a request; of Node's own the address is what its headers say. */
function readAsking(request: unknown): { readonly url: URL; readonly headers: HeaderReader } {
  try {
    const {
      url = "",
      headers,
      socket,
    } = request as AskingRequest & { socket?: { encrypted?: boolean } };
    // Of a text or a number every member is missing, as those of a request without headers are.
    if (typeof headers !== "object") throw new TypeError("no headers");
    const read = (name: string): string | null => {
      const isOfFetch = typeof headers.get === "function";
      const value: unknown = isOfFetch
        ? (headers as Headers).get(name)
        : (headers as { readonly [name: string]: unknown })[name.toLowerCase()];
      return typeof value === "string" ? value : null;
    };
    const found = new Map(
      ["Origin", "Sec-Fetch-Site", "Host", "Cookie"].map((name) => [name, read(name)]),
    );
    const site = `${socket?.encrypted ? "https" : "http"}://${found.get("Host")}`;
    const address = new URL(/^https?:/i.test(url) ? url : site);
    return { url: address, headers: { get: (name) => found.get(name) ?? null } };
  } catch {
    throw new InvalidArgumentError(`bindBrowser takes the request, not ${described(request)}`);
  }
}

/** What the verifier judges. A cookie that came twice is none. */
export function nonceOf(cookies: string | null | undefined): string | undefined {
  const [nonce, ...others] = cookiesOf(cookies, BROWSER);
  return others.length === 0 ? nonce : undefined;
}

/** The 16 bytes of the visitor's cookie; all browsers that keep none are one visitor. */
export function visitorOf(cookies: string | null): Uint8Array | undefined {
  const [visitor = "", ...others] = cookiesOf(cookies, VISITOR);
  if (others.length > 0 || !/^[0-9a-f]{32}$/.test(visitor)) return undefined;
  return Uint8Array.from(visitor.match(/../g) as string[], (digits) => Number.parseInt(digits, 16));
}

/** The header that makes a browser a visitor. */
export function newVisitor(request: Request): string {
  return cookie(request, VISITOR, newNonce());
}

/** The nonce that the browser of a request has for bound links. */
export function nonceIn(request: Request): string | undefined {
  return nonceOf(request.headers.get("Cookie"));
}
