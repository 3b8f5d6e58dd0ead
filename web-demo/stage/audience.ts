// Those who watch: one stream of events for each page.

import type { ServerResponse } from "node:http";

import { EventStream } from "../service/event_stream.ts";
import type { Mail } from "./mail.ts";

interface Listener {
  readonly stream: EventStream;
  /** Whose mails, account and invitation are wanted. */
  readonly email: string | undefined;
  /** What was last said of the person. */
  said: string;
  /** Mails that arrive while the earlier ones are still being asked for; nothing afterwards. */
  waiting: Mail[] | undefined;
}

export class Audience {
  readonly #listeners = new Set<Listener>();
  /** The newest of each kind, for whoever joins. */
  readonly #newest = new Map<string, { readonly data: unknown; readonly revision: number }>();
  /**
   * Counts the events. A stage that was started again goes on above the count of the stage before.
   */
  #revision = Date.now();

  get size(): number {
    return this.#listeners.size;
  }

  /**
   * @param earlier what has arrived before, which takes a moment to ask for;
   * whoever joins hears of everything after
   */
  join(
    response: ServerResponse,
    email: string | undefined,
    earlier: Promise<readonly Mail[]>,
  ): void {
    const listener: Listener = {
      stream: new EventStream(response, () => this.#listeners.delete(listener)),
      email,
      said: "",
      waiting: [],
    };
    this.#listeners.add(listener);
    for (const [event, { data, revision }] of this.#newest) {
      listener.stream.send(event, data, String(revision));
    }
    void earlier.then((mails) => {
      const known = new Set(mails.map(({ id }) => id));
      const later = listener.waiting?.filter(({ id }) => !known.has(id)) ?? [];
      for (const mail of [...mails, ...later]) listener.stream.send("mail", mail);
      listener.waiting = undefined;
    });
  }

  tell(event: string, data: unknown): void {
    this.#revision += 1;
    this.#newest.set(event, { data, revision: this.#revision });
    for (const { stream } of this.#listeners) stream.send(event, data, String(this.#revision));
  }

  /** What was told last of these kinds, and the revision up to which that is known. */
  newest(...events: string[]): Record<string, unknown> {
    const data = events.map((event) => [event, this.#newest.get(event)?.data]);
    return { revision: this.#revision, ...Object.fromEntries(data) };
  }

  tellMail(mail: Mail): void {
    for (const { stream, email, waiting } of this.#listeners) {
      if (email !== mail.to) continue;
      if (waiting === undefined) stream.send("mail", mail);
      else waiting.push(mail);
    }
  }

  /** Those whom somebody watches. */
  get emails(): Set<string> {
    return new Set(
      [...this.#listeners].flatMap(({ email }) => (email === undefined ? [] : [email])),
    );
  }

  /** Tells those who watch this person, if anything has changed. */
  tellPerson(email: string, person: unknown): void {
    const text = JSON.stringify(person ?? {});
    for (const listener of this.#listeners) {
      if (listener.email !== email || listener.said === text) continue;
      listener.said = text;
      listener.stream.send("person", person ?? {});
    }
  }
}
