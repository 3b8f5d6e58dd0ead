// The inbox of whoever was registered, with its mails as mail programs show them.

import { byId, element } from "./element.ts";
import type { Mail } from "./messages.ts";
import { clock } from "./time.ts";

/** Those that are shown already: a stream that begins again tells all of them again. */
const shown = new Set<string>();

export function clearInbox(): void {
  shown.clear();
  byId("mails").replaceChildren();
}

/** Leads to the inbox's own page, which shows everybody's mails. */
export function showInbox(address: string): void {
  const link = { href: address, target: "_blank", rel: "noopener noreferrer" };
  byId("all-mails").replaceChildren(
    element("a", link, "All mails, also dark, as text and as source"),
    ": the inbox of ",
    element("code", {}, "mailroom dev"),
  );
}

export function showMail({ id, from, to, subject, action, receivedAt }: Mail): void {
  if (shown.has(id)) return;
  shown.add(id);
  byId("inbox-of").replaceChildren("Mails to ", element("bdi", {}, to));
  const time = element("time", { datetime: new Date(receivedAt).toISOString() }, clock(receivedAt));
  // Twice forbidden to do anything but open links: here, and by its own policy.
  const mail = element("iframe", {
    title: `Mail: ${subject}`,
    src: `/demo/mail?${new URLSearchParams({ id })}`,
    sandbox: "allow-popups allow-popups-to-escape-sandbox",
  });
  byId("mails").prepend(
    element(
      "li",
      { "data-action": action },
      time,
      element("p", { class: "subject" }, subject),
      element("p", { class: "note" }, `from ${from}`),
      mail,
    ),
  );
}
