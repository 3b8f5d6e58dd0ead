// The inbox of `mailroom dev` (docs/reference/dev.md).

import { MailMissingError } from "../errors/errors.js";
import type { InboxMail, Sought } from "./inbox.js";

/** It lets nobody wait for longer. */
const MOST_SECONDS = 60;

export async function mailsOfDev(
  { base, to, action, after, get }: Sought,
  seconds: number,
): Promise<readonly unknown[] | undefined> {
  const query = new URLSearchParams({ to });
  if (action !== undefined) query.set("action", action);
  if (after !== "") query.set("after", after);
  const wait = Math.min(MOST_SECONDS, Math.ceil(seconds));
  if (wait > 0) query.set("wait", `${wait}s`);
  const found = await get(`${base}/mails?${query}`);
  return Array.isArray(found) ? found : undefined;
}

export async function mailOfDev(_: Sought, found: unknown): Promise<InboxMail> {
  const { id, to, subject, text, html, link, code, fault } = Object(found) as Record<
    string,
    unknown
  >;
  if (typeof fault === "string")
    throw new MailMissingError(`the mail could not be written: ${fault}`);
  const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
  return Object.freeze<InboxMail>({
    id: String(id),
    ...{ to: textOf(to), subject: textOf(subject), text: textOf(text), html: textOf(html) },
    link: textOf(link) || undefined,
    code: textOf(code) || undefined,
  });
}
