import type { ReadHandlerOptions } from "./options_reading.js";

/** A value that no page before had. */
export function newNonce(): string {
  let nonce = "";
  for (const byte of crypto.getRandomValues(new Uint8Array(16)))
    nonce += byte.toString(16).padStart(2, "0");
  return nonce;
}

/** The headers of everything that is answered. */
export function headersOf(
  nonce: string,
  { policy, site }: ReadHandlerOptions,
  more: Record<string, string> = {},
): Headers {
  const own = `'nonce-${nonce}'`;
  const directives = new Map<string, string>([
    ["default-src", "'none'"],
    ["script-src", own],
    ["style-src", own],
    ...(site?.images ? [["img-src", site.images] as const] : []),
    ["form-action", "'self'"],
    ["base-uri", "'none'"],
    ["frame-ancestors", "'none'"],
  ]);
  for (const [directive, sources] of policy) {
    const always = directives.get(directive);
    directives.set(directive, always === undefined ? sources : `${always} ${sources}`);
  }
  const headers = new Headers(more);
  const set: Record<string, string> = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": [...directives].map((directive) => directive.join(" ")).join("; "),
    "Cross-Origin-Opener-Policy": "same-origin",
    // Under `no-referrer` browsers send forms with `Origin: null`.
    "Referrer-Policy": "strict-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
  };
  for (const [name, value] of Object.entries(set)) headers.set(name, value);
  return headers;
}

/** An answer of the application's, kept nowhere either. */
export function withHeaders(response: Response, headers: Headers): Response {
  const all = new Headers(response.headers);
  for (const name of ["Cache-Control", "Referrer-Policy"])
    all.set(name, headers.get(name) as string);
  for (const cookie of headers.getSetCookie()) all.append("Set-Cookie", cookie);
  return new Response(response.body, {
    status: response.status,
    statusText: response.statusText,
    headers: all,
  });
}
