/** The values that a header `Cookie` has of a name (RFC 6265, section 4.2.1), each as it stands. */
export function cookiesOf(header: string | null | undefined, name: string): string[] {
  const start = `${name}=`;
  return (header ?? "")
    .split(";")
    .map((pair) => (pair.startsWith(" ") ? pair.slice(1) : pair))
    .filter((pair) => pair.startsWith(start))
    .map((pair) => pair.slice(start.length));
}

/** A header `Set-Cookie`. `life`: in seconds; without it until the browser ends. */
export function cookie(url: URL, name: string, value: string, life?: number): string {
  // A program behind a proxy that ends TLS sees http, too; browsers take it as secure on their own machine alone.
  const local = url.protocol === "http:" && /^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname);
  const secure = local ? "" : "; Secure";
  const age = life === undefined ? "" : `; Max-Age=${life}`;
  return `${name}=${value}${age}; HttpOnly; SameSite=Lax${secure}`;
}
