// What the Worker is bound to. On Cloudflare these are secrets, service bindings and a Durable
// Object namespace.

import type { UsedToken } from "mailroom-verifier/stores/durable-object";

export interface Environment {
  /**
   * The shared keys of v1 and v2, separated by blanks: the current one first,
   * then earlier and upcoming ones.
   */
  readonly MAILROOM_SECRET_KEYS: string;
  /** The public keys of v3, likewise. */
  readonly MAILROOM_PUBLIC_KEYS: string;
  /** By which the origin knows that a call comes from here. */
  readonly ORIGIN_PASSWORD: string;
  /** The bearer token by which `mailroom serve` does. */
  readonly SERVE_TOKEN: string;
  /**
   * `allow` or, by default, `refuse`: anything of the length of a v1 recovery goes
   * on to the database.
   */
  readonly V1_RECOVERIES: string | undefined;
  readonly ORIGIN: Fetcher;
  /** `mailroom serve`, which uses links. */
  readonly SERVE: Fetcher;
  readonly USED_TOKENS: DurableObjectNamespace<UsedToken>;
  /** The pages that Vite built. */
  readonly ASSETS: Fetcher;
  /**
   * The demonstration itself: mails, counters and buttons. A real edge has no such thing, and does
   * not answer there.
   */
  readonly STAGE?: Fetcher;
}
