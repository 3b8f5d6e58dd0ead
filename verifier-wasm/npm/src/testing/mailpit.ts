// Inboxes that answer as Mailpit does: `GET /api/v1/search` and `GET /api/v1/message/ID`.

import { roughly } from "../token/version.js";
import type { InboxMail, Sought } from "./inbox.js";

/** What it answers, as far as it is read here; nothing of it is sure. */
interface Answer {
  readonly messages?: unknown;
  readonly ID?: unknown;
  readonly To?: unknown;
  readonly Address?: unknown;
  readonly Subject?: unknown;
  readonly Text?: unknown;
  readonly HTML?: unknown;
}

const jsonOf = (value: unknown): Answer => Object(value) as Answer;
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

export async function mailsOfMailpit({
  base,
  to,
  after,
  get,
}: Sought): Promise<readonly unknown[] | undefined> {
  const query = new URLSearchParams({ query: `to:"${to}"` });
  const { messages } = jsonOf(await get(`${base}/api/v1/search?${query}`));
  if (!Array.isArray(messages)) return undefined;
  const end = messages.findIndex((found) => jsonOf(found).ID === after);
  // It also finds addresses that have this one as a part.
  return (end < 0 ? messages : messages.slice(0, end)).filter((found) => isTo(found, to));
}

function isTo(found: unknown, to: string): boolean {
  const list = jsonOf(found).To;
  const addresses = Array.isArray(list) ? list.map((one) => textOf(jsonOf(one).Address)) : [];
  return addresses.some((address) => address.toLowerCase() === to.toLowerCase());
}

/** A mail that is listed, unless it is of another action: its link tells which it is of. */
export async function mailOfMailpit(
  { base, to, action, actions, get }: Sought,
  found: unknown,
): Promise<InboxMail | undefined> {
  const id = textOf(jsonOf(found).ID);
  const message = jsonOf(await get(`${base}/api/v1/message/${encodeURIComponent(id)}`));
  const [text, html] = [textOf(message.Text), textOf(message.HTML)];
  const links = [...linksOf(text), ...linksOf(html.replaceAll("&amp;", "&"))];
  const { path, digits = 0 } = actions.find(action) ?? {};
  const link = path === undefined ? links[0] : links.find((link) => pathOf(link).endsWith(path));
  if (path !== undefined && link === undefined) return undefined;
  const prose = text.replaceAll(/https?:\S+/g, " ");
  const [code] =
    (digits > 0 && new RegExp(`(?<![\\w-])\\d{${digits}}(?![\\w-])`).exec(prose)) || [];
  return Object.freeze<InboxMail>({
    ...{ id, to, subject: textOf(message.Subject), text, html, link, code },
  });
}

/** The addresses that carry a token, in their query or behind `#`. */
function linksOf(text: string): string[] {
  const before = /https?:\/\/[^\s"'<>]+?(?:[?&]token=|#)/.source;
  return text.match(new RegExp(`${before}${roughly()}(?:&from=mail)?`, "g")) ?? [];
}

function pathOf(link: string): string {
  return new URL(link).pathname;
}
