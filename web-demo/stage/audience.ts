// Those who watch: one stream of events for each page.

import type { ServerResponse } from "node:http";

import type { Mail } from "../inbox/mail.ts";
import { EventStream } from "../service/event_stream.ts";

interface Listener {
  readonly stream: EventStream;
  /** Whose mails and account are wanted. */
  readonly email: string | undefined;
  /** What was last said of the account. */
  said: string;
}

export class Audience {
  readonly #listeners = new Set<Listener>();
  /** The newest of each kind, for whoever joins. */
  readonly #newest = new Map<string, unknown>();

  get size(): number {
    return this.#listeners.size;
  }

  join(response: ServerResponse, email: string | undefined, mails: readonly Mail[]): void {
    const listener: Listener = {
      stream: new EventStream(response, () => this.#listeners.delete(listener)),
      email,
      said: "",
    };
    for (const [event, data] of this.#newest) listener.stream.send(event, data);
    for (const mail of mails) listener.stream.send("mail", mail);
    this.#listeners.add(listener);
  }

  tell(event: string, data: unknown): void {
    this.#newest.set(event, data);
    for (const { stream } of this.#listeners) stream.send(event, data);
  }

  tellMail(mail: Mail): void {
    for (const { stream, email } of this.#listeners) if (email === mail.to) stream.send("mail", mail);
  }

  /** The accounts that somebody watches. */
  get emails(): Set<string> {
    return new Set([...this.#listeners].flatMap(({ email }) => (email === undefined ? [] : [email])));
  }

  /** Tells those who watch this account, if it has changed. */
  tellAccount(email: string, account: unknown): void {
    const text = JSON.stringify(account ?? null);
    for (const listener of this.#listeners) {
      if (listener.email !== email || listener.said === text) continue;
      listener.said = text;
      listener.stream.send("account", account ?? null);
    }
  }
}
