import { InvalidArgumentError } from "../errors/errors.js";

/**
 * Whether a page of this site has sent the request. Where the browser says it (`Sec-Fetch-Site`,
 * which no script can set), that decides: proxies that change the host and policies that hide the
 * origin change nothing. Only listed origins may be of another site. Otherwise the host of `Origin`
 * counts: behind a proxy that ends TLS the program knows no scheme. The header `Host` is what the
 * browser has called; some frameworks put another name into the address.
 */
export function isFromSite(headers: HeaderReader, url: URL, origins: readonly string[]): boolean {
  const origin = headers.get("Origin");
  if (origin !== null && origins.includes(origin)) return true;
  const site = headers.get("Sec-Fetch-Site");
  if (site !== null) return site === "same-origin";
  if (origin === null) return false;
  try {
    const { protocol, host } = new URL(origin);
    // A request that is known to be of https is sent by no page of http, which others may have
    // changed.
    const isScheme = protocol === "https:" || protocol + url.protocol === "http:http:";
    // Some proxies and programs name the port of the scheme, which addresses leave out.
    return (
      isScheme &&
      [url.host, headers.get("Host")].some((name) => new URL(`${protocol}//${name}`).host === host)
    );
  } catch {
    return false;
  }
}

/** What is read of headers. */
export interface HeaderReader {
  get(name: string): string | null;
}

/**
 * Tells the operator why forms are refused. Whoever sent the form may have chosen its origin, so
 * this names only the host.
 */
export function originDiffers(url: URL): string {
  return (
    "the form of a genuine link was refused: its origin is not the host that the handler is " +
    `called by (${url.host}). If a proxy changes the host, let it pass the header Host on, ` +
    "or list the addresses of this site, and no others, in the option origins"
  );
}

/** The option `origins`. */
export function readOrigins(given: unknown): readonly string[] {
  if (given === undefined) return [];
  try {
    if (Array.isArray(given)) {
      const origins: unknown[] = [...given];
      if (origins.every((origin) => new URL(origin as string).origin === origin))
        return origins as string[];
    }
  } catch {
    // No address, or a list that cannot be read.
  }
  throw new InvalidArgumentError(
    'the option origins must be a list such as ["https://app.example"]',
  );
}
