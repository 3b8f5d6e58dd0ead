// What an inbox lists of a mail that it has received.

import { randomUUID } from "node:crypto";

import type { Email } from "postal-mime";

export interface Mail {
  /** Its Message-ID, by which a second delivery is noticed. */
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  /** The link in its text, and what that is for. */
  readonly link: string | undefined;
  readonly action: string | undefined;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
}

const LINK = /https?:\/\/[^\s/?#]+\/([\w-]+)\?token=[\w-]+/;

/** @param to whom the envelope names: headers may say anything */
export function mailOf({ messageId, from, subject = "", text = "" }: Email, to: string): Mail {
  const [link, action] = LINK.exec(text) ?? [];
  return {
    id: messageId ?? randomUUID(),
    from: from?.name || (from?.address ?? ""),
    to,
    subject,
    link,
    action,
    receivedAt: Date.now(),
  };
}
