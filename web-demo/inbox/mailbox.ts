// What was delivered, in memory, each token's row once.

import { randomUUID } from "node:crypto";

import { type Item, type Mail, mailOf } from "./mail.ts";

/** The oldest go first. */
const MOST = 20_000;

export class Mailbox {
  readonly #mails = new Map<number, Mail>();
  readonly #listeners = new Set<(mail: Mail) => void>();
  /** A mailbox that was started again is empty, and counts from the beginning. */
  readonly #run = randomUUID();
  #received = 0;
  #repeated = 0;

  /** Takes a mail; one that was delivered before is noticed by its id and not shown twice. */
  deliver(item: Item): void {
    const known = this.#mails.get(item.id);
    if (known !== undefined) {
      this.#repeated += 1;
      this.#mails.set(item.id, { ...known, times: known.times + 1 });
      return;
    }
    const mail = mailOf(item, Date.now());
    this.#received += 1;
    this.#mails.set(mail.id, mail);
    const [oldest] = this.#mails.keys();
    if (this.#mails.size > MOST && oldest !== undefined) this.#mails.delete(oldest);
    for (const listener of this.#listeners) listener(mail);
  }

  /** The newest first. */
  newest(most: number): Mail[] {
    return [...this.#mails.values()].slice(-most).reverse();
  }

  /** Where the mails end by now, for {@link since}. */
  get mark(): string {
    return `${this.#run} ${this.#received}`;
  }

  /** What has arrived after that mark, or all if it is of another run; the oldest first. */
  since(mark: string): Mail[] {
    const [run, received] = mark.split(" ");
    const missed = run === this.#run ? this.#received - Number(received) : this.#mails.size;
    return missed > 0 ? [...this.#mails.values()].slice(-missed) : [];
  }

  /** All to one address, the oldest first. */
  of(address: string): Mail[] {
    return [...this.#mails.values()].filter((mail) => mail.to === address);
  }

  get counts(): { readonly received: number; readonly repeated: number } {
    return { received: this.#received, repeated: this.#repeated };
  }

  /** Calls for each new mail, until the function that is returned is called. */
  listen(listener: (mail: Mail) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
