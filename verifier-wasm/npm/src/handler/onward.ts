// Where a redirect that `redeem` answers leads. The policy of the page that sends the form lets
// forms go to this site alone, and browsers hold every redirect of a form to that, also the next
// ones and those to the same site by http. So a browser gets a page that goes there by itself.

/** The redirect status codes of the Fetch standard. */
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];

/** The modes of requests that scripts make: they get the redirect, whose status they may read. */
const OF_SCRIPTS: readonly (string | null)[] = ["cors", "no-cors", "same-origin"];

/** Whether a page takes the place of the response. */
export function isOnward(request: Request, { status, headers }: Response): boolean {
  const isOfScript = OF_SCRIPTS.includes(request.headers.get("Sec-Fetch-Mode"));
  return REDIRECTS.includes(status) && headers.has("Location") && !isOfScript;
}

/**
 * The address that a page may name: one of http or https, or a relative one. That of the server
 * itself becomes relative: behind a proxy it may have another scheme and host than the browser has
 * asked. Nothing where it is of another kind, such as `javascript:`, or none, or can be read in two
 * ways.
 */
export function onwardAddress(location: string, base: string): string | undefined {
  // The parser of addresses does the same to it, and the attribute that names it has it in quotes.
  const relative = location.replaceAll('"', "%22");
  try {
    new URL(location, base);
  } catch {
    return undefined;
  }
  let url: URL;
  try {
    url = new URL(location);
  } catch {
    return relative;
  }
  const { protocol } = url;
  if (protocol !== "http:" && protocol !== "https:") return undefined;
  // `https:other.example` names a host here, and a path of the site for whoever reads it on a page
  // of that scheme, such as the application that has checked where it leads.
  if (new URL(location, `${protocol}//a.invalid`).host === "a.invalid") return undefined;
  if (url.origin !== new URL(base).origin || url.username !== "") return url.href;
  // Two slashes at the beginning would name a host.
  const path = url.pathname.startsWith("//") ? `/.${url.pathname}` : url.pathname;
  return path + url.search + url.hash;
}

/** The headers of the application's response, its cookies among them, without those of its body. */
export function onwardHeaders(response: Response, page: Headers): Headers {
  const headers = new Headers(response.headers);
  for (const name of [...headers.keys()]) {
    if (/^(?:content-.*|location|refresh|transfer-encoding)$/.test(name)) headers.delete(name);
  }
  for (const [name, value] of page) if (name !== "set-cookie") headers.set(name, value);
  for (const cookie of page.getSetCookie()) headers.append("Set-Cookie", cookie);
  headers.set("Referrer-Policy", "no-referrer");
  return headers;
}
