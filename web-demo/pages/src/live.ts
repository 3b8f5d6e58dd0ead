// Follows what happens, by server-sent events. One stream a page:
// browsers open no more than six to one host.

import type { Answer, Messages } from "./messages.ts";
import { post, type Reply } from "./post.ts";

type Listener<Name extends keyof Messages> = (message: Messages[Name]) => void;

/** What comes in answers, too. */
const ANSWERED: ReadonlySet<string> = new Set(["settings", "parts"] satisfies (keyof Answer)[]);

export class Live {
  readonly #listeners = new Map<string, Listener<never>[]>();
  readonly #connection: (connected: boolean) => void;
  /** The newest revision that was heard of each kind. */
  readonly #heard = new Map<string, number>();
  #source: EventSource | undefined;
  #email: string | undefined;

  /** @param connection is told whether the demonstration answers */
  constructor(connection: (connected: boolean) => void) {
    this.#connection = connection;
    // Of many open tabs those that nobody sees would take up every connection
    // that the browser allows.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.#source?.close();
      else this.follow(this.#email);
    });
  }

  on<Name extends keyof Messages>(name: Name, listener: Listener<Name>): this {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener as Listener<never>]);
    return this;
  }

  /** Begins, or begins again with somebody else's mails and account. */
  follow(email?: string): void {
    this.#source?.close();
    this.#email = email;
    const query = email === undefined ? "" : `?${new URLSearchParams({ email })}`;
    const source = new EventSource(`/demo/events${query}`);
    this.#source = source;
    source.onopen = () => this.#connection(true);
    source.onerror = () => {
      this.#connection(false);
      // An answer that is no stream ends it for good; what is away may come back.
      if (source.readyState === EventSource.CLOSED)
        setTimeout(() => this.#source === source && this.follow(email), 2000);
    };
    for (const name of this.#listeners.keys()) {
      source.addEventListener(name, (event) => {
        const { data, lastEventId } = event as MessageEvent<string>;
        // An event without an id of its own has that of the one before it.
        const revision = ANSWERED.has(name) ? Number(lastEventId) : undefined;
        this.#hear(name, JSON.parse(data) as never, revision);
      });
    }
  }

  /** Asks for a change of the demonstration. What its answer says is heard like an event. */
  async ask(path: string, body: unknown): Promise<Reply> {
    const reply = await post(path, body);
    const { revision, settings, parts } = reply.body as Partial<Answer>;
    if (settings !== undefined) this.#hear("settings", settings as never, revision);
    if (parts !== undefined) this.#hear("parts", parts as never, revision);
    return reply;
  }

  /**
   * An answer and an event come on connections of their own, each at its own pace, so an older one
   * is dropped once a newer one is known. Values that no answer has come
   * by the stream alone, in order.
   */
  #hear(name: string, message: never, revision: number | undefined): void {
    if (revision !== undefined) {
      if (revision < (this.#heard.get(name) ?? 0)) return;
      this.#heard.set(name, revision);
    }
    for (const listener of this.#listeners.get(name) ?? []) listener(message);
  }
}
