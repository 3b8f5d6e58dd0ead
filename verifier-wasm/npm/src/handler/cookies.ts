/** The values that a header `Cookie` has of a name (RFC 6265, section 4.2.1), each as it stands. */
export function cookiesOf(header: string | null | undefined, name: string): string[] {
  const start = `${name}=`;
  return (header ?? "")
    .split(";")
    .map((pair) => (pair.startsWith(" ") ? pair.slice(1) : pair))
    .filter((pair) => pair.startsWith(start))
    .map((pair) => pair.slice(start.length));
}

/**
 * A header `Set-Cookie`. `life`: in seconds; without it until the browser ends. It is for https
 * alone, unless the browser is known to be on http: a program behind a proxy that ends TLS, and
 * that may be asked as `localhost`, sees no https.
 */
export function cookie(
  { url, headers }: Pick<Request, "url" | "headers">,
  name: string,
  value: string,
  life?: number,
): string {
  const age = life === undefined ? "" : `; Max-Age=${life}`;
  const secure = isOnHttp(new URL(url), headers) ? "" : "; Secure";
  return `${name}=${value}${age}; HttpOnly; SameSite=Lax${secure}`;
}

/** On one's own machine the page before, or the page that sent the form, says so. */
function isOnHttp({ protocol, hostname }: URL, headers: Headers): boolean {
  return (
    protocol === "http:" &&
    /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname) &&
    /^http:/i.test(headers.get("Origin") ?? headers.get("Referer") ?? "")
  );
}
