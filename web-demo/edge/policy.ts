// What every answer to a browser says about how it may be used.

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  // Pages verify with WebAssembly, which needs this much and no `eval`.
  "script-src 'self' 'wasm-unsafe-eval'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  // The mails of the demonstration.
  "frame-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** The same answer under the policy. */
export function guarded(response: Response): Response {
  const headers = new Headers(response.headers);
  // The stage has one for mails.
  if (!headers.has("Content-Security-Policy"))
    headers.set("Content-Security-Policy", CONTENT_SECURITY_POLICY);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Resource-Policy", "same-origin");
  headers.set("Permissions-Policy", "camera=(), geolocation=(), microphone=()");
  // A token is in the address for as long as its page loads; other sites are told no more than the
  // name of this one. Under `no-referrer` browsers send forms with `Origin: null`,
  // which frameworks refuse.
  headers.set("Referrer-Policy", "strict-origin");
  headers.set("X-Content-Type-Options", "nosniff");
  if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store");
  return new Response(response.body, { status: response.status, headers });
}
