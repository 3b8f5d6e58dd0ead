// A setting of the demonstration that this page may change, and others as well.
//
// What somebody asks for is shown at once and until it is answered, whatever is heard meanwhile: an
// event of before says how it was. Once it is answered,
// the page shows what is so: also if it failed.

import type { Reply } from "./post.ts";

export class Asked<Value> {
  readonly #show: (value: Value) => void;
  readonly #ask: (value: Value) => Promise<Reply>;
  /** What was heard last; nothing before the first message. */
  #known: Value | undefined;
  /** What somebody wants and has no answer to. */
  #wanted: Value | undefined;
  #asking = false;

  /**
   * @param show draws the value
   * @param ask asks for the value. What its answer says of the settings has been
   * heard when it is over
   */
  constructor(show: (value: Value) => void, ask: (value: Value) => Promise<Reply>) {
    this.#show = show;
    this.#ask = ask;
  }

  /** What is shown; nothing before the first message. */
  get value(): Value | undefined {
    return this.#wanted ?? this.#known;
  }

  /** Takes the value that holds now. */
  hear(value: Value): void {
    this.#known = value;
    this.#draw();
  }

  /**
   * Asks for a value. Returns the answer to the last request, or nothing while that is under way:
   * requests overtake each other, so the next one waits for the answer.
   */
  async want(value: Value): Promise<Reply | undefined> {
    this.#wanted = value;
    this.#draw();
    if (this.#asking) return undefined;
    this.#asking = true;
    let asked: Value;
    let reply: Reply;
    do {
      asked = this.#wanted;
      reply = await this.#ask(asked);
    } while (this.#wanted !== asked);
    this.#asking = false;
    this.#wanted = undefined;
    this.#draw();
    return reply;
  }

  #draw(): void {
    const { value } = this;
    if (value !== undefined) this.#show(value);
  }
}
