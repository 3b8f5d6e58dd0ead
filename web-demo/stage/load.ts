// The two buttons that make traffic: a thousand registrations,
// and ten thousand links that must not get through.

import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

import { BadRequest } from "../service/server.ts";
import type { Junk } from "./junk.ts";
import { askForMails } from "./mail.ts";
import type { Parts } from "./parts.ts";
import { type Progress, send } from "./traffic.ts";

const FORM = "application/x-www-form-urlencoded";

/** How long to wait for the one mail that a flood needs, in milliseconds. */
const PATIENCE = 120_000;

export class Load {
  readonly #parts: Parts;
  readonly #junk: Junk;
  readonly #tell: (progress: Progress) => void;
  readonly #running = new Set<string>();
  /** A link that was used, to be replayed. */
  #used: string | undefined;

  constructor(parts: Parts, junk: Junk, tell: (progress: Progress) => void) {
    this.#parts = parts;
    this.#junk = junk;
    this.#tell = tell;
  }

  /** Starts to register `count` people through the edge. */
  registrations(count: number): void {
    const run = randomBytes(4).toString("hex");
    void this.#once("registrations", () =>
      send("registrations", count, (number) => this.#register(`load-${run}-${number}`), this.#tell),
    );
  }

  /**
   * Starts to throw `count` links at the edge: a third forged, for both pages, a third expired, a
   * third used before. No forged recovery has the length of a v1 token, because the edge cannot
   * judge such a token.
   */
  flood(count: number): void {
    void this.#once("flood", async () => {
      const used = await this.#usedLink();
      const expired = await Promise.all([this.#junk.expired("v3"), this.#junk.expired("v2")]);
      const half = () => Math.random() < 0.5;
      const kinds = [
        () =>
          this.#press(
            half() ? this.#junk.forged(half() ? "v3" : "v2", "activate") : this.#junk.malformed(),
          ),
        () => this.#press(expired[half() ? 0 : 1] ?? ""),
        () => this.#press(used),
        () => this.#tryCode(this.#junk.forged(half() ? "v3" : "v2", "recover")),
        () => this.#press(expired[half() ? 0 : 1] ?? ""),
        () => this.#press(used),
      ];
      return send(
        "flood",
        count,
        (number) => (kinds[number % kinds.length] as () => Promise<Response>)(),
        this.#tell,
      );
    });
  }

  async #once(title: string, work: () => Promise<unknown>): Promise<void> {
    if (this.#running.has(title)) return;
    this.#running.add(title);
    try {
      await work();
    } catch (error) {
      const why = error instanceof BadRequest ? error.message : "It could not be started.";
      this.#tell({
        title: `${title}: ${why}`,
        done: 0,
        of: 0,
        statuses: {},
        running: false,
        elapsed: 0,
      });
    } finally {
      this.#running.delete(title);
    }
  }

  #register(login: string): Promise<Response> {
    return fetch(`${this.#parts.edge.url}/api/register`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ login, email: `${login}@example.test` }),
    });
  }

  #press(token: string): Promise<Response> {
    return this.#post("/activate", { token });
  }

  #tryCode(token: string): Promise<Response> {
    return this.#post("/recover", { token, code: "12345" });
  }

  #post(path: string, fields: Record<string, string>): Promise<Response> {
    return fetch(`${this.#parts.edge.url}${path}`, {
      method: "POST",
      headers: { "Content-Type": FORM },
      body: new URLSearchParams(fields).toString(),
    });
  }

  /** Registers somebody and uses the link of the mail, as a person would. */
  async #usedLink(): Promise<string> {
    if (this.#used !== undefined) return this.#used;
    const login = `replayed-${randomBytes(4).toString("hex")}`;
    await this.#register(login);
    for (const started = Date.now(); Date.now() - started < PATIENCE; await pause(250)) {
      const wanted = { to: `${login}@example.test` };
      const [mail] = await askForMails(this.#parts.inbox, wanted, AbortSignal.timeout(PATIENCE));
      if (mail === undefined) continue;
      const token = new URL(mail.link).searchParams.get("token") ?? "";
      const used = await this.#press(token);
      if (!used.ok) throw new BadRequest("The link to be replayed could not be used.");
      this.#used = token;
      return token;
    }
    throw new BadRequest("No mail came whose link could be replayed: does the collector run?");
  }
}
