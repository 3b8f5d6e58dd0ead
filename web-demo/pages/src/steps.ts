// The five steps on top of the walk-through.

import type { Account } from "./messages.ts";

type Step = "registered" | "token" | "mail" | "used" | "active";

export class Steps {
  readonly #list: HTMLElement;

  constructor(list: HTMLElement) {
    this.#list = list;
  }

  restart(): void {
    for (const item of this.#items()) this.#mark(item, false);
  }

  done(step: Step): void {
    for (const item of this.#items()) if (item.dataset.step === step) this.#mark(item, true);
  }

  follow(account: Account | null): void {
    if (account === null) return;
    this.done("registered");
    if (account.activation !== null) this.done("token");
    if (account.activation?.usedAt != null) this.done("used");
    if (account.status === "active") this.done("active");
  }

  #items(): NodeListOf<HTMLElement> {
    return this.#list.querySelectorAll<HTMLElement>("li");
  }

  #mark(item: HTMLElement, done: boolean): void {
    if (done) item.setAttribute("data-done", "");
    else item.removeAttribute("data-done");
    // The mark is drawn; this says it.
    item.setAttribute("aria-label", `${item.textContent ?? ""} ${done ? "Done." : "Not yet."}`);
  }
}
