/**
 * A store of used tokens in Durable Objects of Cloudflare, one for each token, so that they spread by themselves.
 *
 * Workers KV cannot be such a store: a write is seen elsewhere up to a minute later, and until then the token works
 * again.
 *
 * @module
 */

import {
  hexadecimal,
  InvalidArgumentError,
  readMethod,
  readNamespace,
  readOptions,
  StoreUnavailableError,
  TokenExpiredError,
} from "../store.js";
import type { TokenStore } from "../token_store.js";

/** The part of a `Response` that is looked at. */
export interface ObjectResponse {
  readonly ok: boolean;
  readonly status: number;
  text(): Promise<string>;
}

/** The binding of a Worker to the class {@link UsedToken}. */
export interface DurableObjectBinding {
  idFromName(name: string): object;
  // biome-ignore lint/suspicious/noExplicitAny: the ids of the runtime are of a class that this package does not know
  get(id: any): {
    fetch(url: string, init: { method: string }): Promise<ObjectResponse>;
  };
}

/** What {@link createDurableObjectStore} takes. Options of other names are refused. */
export interface DurableObjectStoreOptions {
  readonly binding: DurableObjectBinding;
  /** Begins every object's name: 1 to 64 letters, digits, dots, hyphens and underscores. One for each installation. */
  readonly namespace: string;
}

/**
 * Remembers used tokens in Durable Objects of the class {@link UsedToken}, by the clock of the object.
 *
 * @throws InvalidArgumentError
 * @example
 * export { UsedToken } from "mailroom-verifier/stores/durable-object";
 * const store = createDurableObjectStore({ binding: env.USED_TOKENS, namespace: "mailroom" });
 */
export function createDurableObjectStore(options: DurableObjectStoreOptions): Required<TokenStore> {
  const [binding, given] = readOptions(options, ["binding", "namespace"]);
  const [idFromName, get] = [readMethod(binding, "idFromName"), readMethod(binding, "get")];
  if (!idFromName || !get) throw new InvalidArgumentError("the option binding is one to a Durable Object");
  const namespace = readNamespace(given);

  async function ask(what: string, id: Uint8Array): Promise<string> {
    const object = get?.(idFromName?.(`${namespace}/${hexadecimal(id)}`)) as ReturnType<
      DurableObjectBinding["get"]
    >;
    const response = await object.fetch(`https://used-token/${what}`, { method: "POST" });
    const answer = await response.text();
    if (answer === "too late") {
      throw new TokenExpiredError("the time until which to remember this token is over");
    }
    if (!response.ok)
      throw new StoreUnavailableError(`the Durable Object answered with status ${response.status}`);
    return answer;
  }

  return Object.freeze<Required<TokenStore>>({
    async consume(id, rememberUntil) {
      const answer = await ask(`consume?until=${rememberUntil}`, id);
      if (answer === "true") return true;
      if (answer === "false") return false;
      throw new StoreUnavailableError("the Durable Object answered what is no answer");
    },
    async attempt(id, rememberUntil) {
      return Number(await ask(`attempt?until=${rememberUntil}`, id));
    },
    async release(id) {
      await ask("release", id);
    },
  });
}

/** What one object keeps. */
interface Entry {
  used: boolean;
  tries: number;
  /** Seconds since the Unix epoch. */
  rememberUntil: number;
}

/** The part of an object's storage that is used. */
interface Storage {
  get(key: "entry"): Promise<Entry | undefined>;
  put(key: "entry", entry: Entry): Promise<void>;
  deleteAll(): Promise<void>;
  getAlarm(): Promise<number | null>;
  setAlarm(milliseconds: number): Promise<void>;
}

/**
 * The Durable Object that remembers one token. A Worker exports it under this name and binds it; its only client is
 * {@link createDurableObjectStore}.
 *
 * While it waits for its storage, the runtime gives an object no other request, and it sends no answer before what was
 * written is safe: reading and then writing is one step.
 */
export class UsedToken {
  readonly #storage: Storage;

  constructor(state: { readonly storage: unknown }) {
    this.#storage = state.storage as Storage;
  }

  async fetch(request: { readonly method: string; readonly url: string }): Promise<ObjectResponse> {
    const { pathname, searchParams } = new URL(request.url);
    if (request.method !== "POST") return new Response("only POST", { status: 405 });
    if (pathname === "/release") return this.#release();
    const rememberUntil = Number(searchParams.get("until") ?? Number.NaN);
    if (!Number.isFinite(rememberUntil)) return new Response("no time", { status: 400 });
    if (pathname === "/consume") {
      return this.#change(rememberUntil, (entry) => {
        const first = !entry.used;
        entry.used = true;
        return String(first);
      });
    }
    if (pathname === "/attempt") {
      return this.#change(rememberUntil, (entry) => {
        entry.tries += 1;
        return String(entry.tries);
      });
    }
    return new Response("no such method", { status: 404 });
  }

  /** Forgets the token, once its time is over. */
  async alarm(): Promise<void> {
    const entry = await this.#storage.get("entry");
    if (entry && entry.rememberUntil > now())
      await this.#storage.setAlarm(Math.ceil(entry.rememberUntil * 1000));
    else await this.#storage.deleteAll();
  }

  async #change(rememberUntil: number, change: (entry: Entry) => string): Promise<Response> {
    if (rememberUntil <= now()) return new Response("too late", { status: 410 });
    const found = await this.#storage.get("entry");
    const live = found !== undefined && found.rememberUntil > now();
    const entry = live ? found : { used: false, tries: 0, rememberUntil };
    entry.rememberUntil = Math.max(entry.rememberUntil, rememberUntil);
    const answer = change(entry);
    await this.#storage.put("entry", entry);
    // It looks at the entry when it rings, so one that rings too early is set again.
    if ((await this.#storage.getAlarm()) === null)
      await this.#storage.setAlarm(Math.ceil(entry.rememberUntil * 1000));
    return new Response(answer);
  }

  async #release(): Promise<Response> {
    const entry = await this.#storage.get("entry");
    if (entry) await this.#storage.put("entry", { ...entry, used: false });
    return new Response("released");
  }
}

function now(): number {
  return Date.now() / 1000;
}
