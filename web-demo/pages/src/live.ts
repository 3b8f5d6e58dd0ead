// Follows what happens, by server-sent events. One stream a page: browsers open no more than six to one host.

import type { Messages } from "./messages.ts";

type Listener<Name extends keyof Messages> = (message: Messages[Name]) => void;

export class Live {
  readonly #listeners = new Map<string, Listener<never>[]>();
  readonly #connection: (connected: boolean) => void;
  #source: EventSource | undefined;
  #email: string | undefined;

  /** @param connection is told whether the demonstration answers */
  constructor(connection: (connected: boolean) => void) {
    this.#connection = connection;
    // Of many open tabs those that nobody sees would take up every connection that the browser allows.
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
    for (const [name, listeners] of this.#listeners) {
      source.addEventListener(name, (event) => {
        const message: never = JSON.parse((event as MessageEvent<string>).data) as never;
        for (const listener of listeners) listener(message);
      });
    }
  }
}
