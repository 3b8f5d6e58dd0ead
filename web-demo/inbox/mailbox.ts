// What was received, in memory, each mail once.

import { randomUUID } from "node:crypto";

import type { Mail } from "./mail.ts";

/** The oldest go first. */
const MOST = 20_000;

interface Kept {
  readonly mail: Mail;
  readonly html: string;
}

export class Mailbox {
  readonly #kept = new Map<string, Kept>();
  readonly #listeners = new Set<(mail: Mail) => void>();
  /** A mailbox that was started again is empty, and counts from the beginning. */
  readonly #run = randomUUID();
  #received = 0;
  #repeated = 0;

  /** Takes a mail; one that came before is noticed by its id and not shown twice. */
  deliver(mail: Mail, html: string): void {
    if (this.#kept.has(mail.id)) {
      this.#repeated += 1;
      return;
    }
    this.#received += 1;
    this.#kept.set(mail.id, { mail, html });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MOST && oldest !== undefined) this.#kept.delete(oldest);
    for (const listener of this.#listeners) listener(mail);
  }

  /** The newest first. */
  newest(most: number): Mail[] {
    return this.#mails.slice(-most).reverse();
  }

  /** Where the mails end by now, for {@link since}. */
  get mark(): string {
    return `${this.#run} ${this.#received}`;
  }

  /** What has arrived after that mark, or all if it is of another run; the oldest first. */
  since(mark: string): Mail[] {
    const [run, received] = mark.split(" ");
    const missed = run === this.#run ? this.#received - Number(received) : this.#kept.size;
    return missed > 0 ? this.#mails.slice(-missed) : [];
  }

  /** All to one address, the oldest first. */
  of(address: string): Mail[] {
    return this.#mails.filter(({ to }) => to === address);
  }

  /** A mail as it is to be read. */
  html(id: string): string | undefined {
    return this.#kept.get(id)?.html;
  }

  get counts(): { readonly received: number; readonly repeated: number } {
    return { received: this.#received, repeated: this.#repeated };
  }

  /** Calls for each new mail, until the function that is returned is called. */
  listen(listener: (mail: Mail) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get #mails(): Mail[] {
    return Array.from(this.#kept.values(), ({ mail }) => mail);
  }
}
