// Mails as the inbox tells them, and as the pages list them.

import type { Part } from "./part.ts";

/** What of a mail a page lists. */
export interface Mail {
  /** Of this mail alone, also where an inbox that was started again counts from the beginning. */
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  /** The link in its text, and what that is for; empty for none. */
  readonly link: string;
  readonly action: string;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
}

/** Members of a mail in the JSON of the inbox, docs/reference/dev.md. */
interface Told extends Omit<Mail, "id" | "receivedAt"> {
  readonly id: number;
  readonly at: number;
}

export interface Page {
  readonly html: string;
  /** What it may do: the policy of the inbox. */
  readonly policy: string;
}

/**
 * Asks the inbox for mails, the newest first; `number` is that of the inbox.
 *
 * @throws if it is away
 */
export async function askForMails(
  inbox: Part,
  query: Record<string, string>,
  signal: AbortSignal,
): Promise<(Mail & { readonly number: number })[]> {
  const response = await fetch(`${inbox.url}/mails?${encoded(query)}`, { signal });
  if (!response.ok) throw new Error(`the inbox answers ${response.status}`);
  const told = (await response.json()) as Told[];
  return told.map(({ id, at, from, to, subject, link, action }) => ({
    number: id,
    id: `${id}-${at}`,
    // As mail programs list it: the name, if there is one.
    from: from.replace(/ <[^>]*>$/, ""),
    to,
    subject,
    link,
    action,
    receivedAt: at,
  }));
}

/** A mail as it is to be read, or nothing if the inbox does not have it. */
export async function askForPage(
  inbox: Part,
  id: string,
  signal: AbortSignal,
): Promise<Page | undefined> {
  const [, number, at] = /^(\d+)-(\d+)$/.exec(id) ?? [];
  if (number === undefined) return undefined;
  const found = await fetch(`${inbox.url}/mails/${number}`, { signal });
  if (!found.ok || String(((await found.json()) as Told).at) !== at) return undefined;
  const response = await fetch(`${inbox.url}/mails/${number}/html`, { signal });
  const policy = response.headers.get("Content-Security-Policy");
  // Without the policy of mails it is not shown.
  if (!response.ok || policy === null) return undefined;
  return { html: await response.text(), policy };
}

/** The inbox takes a plus sign for one, which addresses have. */
function encoded(query: Record<string, string>): string {
  return Object.entries(query)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join("&");
}
