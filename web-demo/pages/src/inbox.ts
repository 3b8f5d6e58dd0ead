// The inbox and the telephone of whoever was registered.

import { byId, element, say } from "./element.ts";
import type { Mail } from "./messages.ts";
import { clock } from "./time.ts";

const SUBJECTS = {
  activate: "Activate your account",
  recover: "Recover your account",
  invite: "You are invited",
};

/** Those that are shown already: a stream that begins again tells all of them again. */
const shown = new Set<number>();

export function clearInbox(): void {
  shown.clear();
  byId("mails").replaceChildren();
  byId("codes").replaceChildren();
}

export function showMail(mail: Mail): void {
  if (shown.has(mail.id)) return;
  shown.add(mail.id);
  const to = byId("inbox-of");
  to.replaceChildren("Mails to ", element("bdi", {}, mail.to));
  const time = element("time", { datetime: new Date(mail.receivedAt).toISOString() }, clock(mail.receivedAt));
  const token = mail.link.slice(mail.link.indexOf("=") + 1);
  // Of the address only the path is shown: whoever looks over a shoulder sees no link.
  const link = element(
    "a",
    { href: mail.link, target: "_blank", rel: "noopener noreferrer" },
    SUBJECTS[mail.action],
  );
  link.append(element("span", { class: "visually-hidden" }, " (opens a new page)"));
  byId("mails").prepend(
    element(
      "li",
      { "data-mail": String(mail.id), "data-action": mail.action },
      time,
      element("p", { class: "subject" }, link),
      element("p", { class: "note" }, `${token.length} characters, ${token.slice(0, 10)}…${token.slice(-6)}`),
    ),
  );
  if (mail.code === undefined) return;
  const received = element(
    "time",
    { datetime: new Date(mail.receivedAt).toISOString() },
    clock(mail.receivedAt),
  );
  byId("codes").prepend(element("li", {}, received, element("span", { class: "code" }, mail.code)));
  say(byId("request-note"), "");
}
