/**
 * A store of used tokens in Durable Objects of Cloudflare, one for each token,
 * so that they spread by themselves.
 *
 * Workers KV cannot be such a store: a write is seen elsewhere up to a minute later, and until then
 * the token works again.
 *
 * @module
 */

import { described } from "../../arguments/described.js";
import { readMethod, readOptions } from "../../arguments/options.js";
import { InvalidArgumentError, StoreUnavailableError } from "../../errors/errors.js";
import { hexadecimal, readNamespace } from "../../stores/base.js";
import {
  answering,
  change,
  type Entry,
  FULL,
  OPERATIONS,
  type Operation,
  TOO_LATE,
} from "../../stores/entry.js";
import type { TokenStore } from "../../stores/token_store.js";

/** The part of a `Response` that is looked at. */
export interface ObjectResponse {
  readonly ok: boolean;
  readonly status: number;
  text(): Promise<string>;
}

/** The binding of a Worker to the class {@link UsedToken}. */
export interface DurableObjectBinding {
  idFromName(name: string): object;
  // biome-ignore lint/suspicious/noExplicitAny: the class of ids is the runtime's own
  get(id: any): {
    fetch(url: string, init: { method: string }): Promise<ObjectResponse>;
  };
}

/** What {@link createDurableObjectStore} takes. Options of other names are refused. */
export interface DurableObjectStoreOptions {
  readonly binding: DurableObjectBinding;
  /**
   * Begins every object's name: 1 to 64 letters, digits, dots, hyphens and underscores. One for
   * each installation.
   */
  readonly namespace: string;
}

/**
 * Remembers used tokens in Durable Objects of the class {@link UsedToken}, by the clock of the
 * object: while that reads the future, links that are still valid are refused. A request that
 * arrives again, or late, changes nothing by that.
 *
 * @throws InvalidArgumentError
 * @example
 * export { UsedToken } from "mailroom-verifier/stores/durable-object";
 * const store = createDurableObjectStore({ binding: env.USED_TOKENS, namespace: "mailroom" });
 */
export function createDurableObjectStore(options: DurableObjectStoreOptions): Required<TokenStore> {
  const [binding, given] = readOptions(options, ["binding", "namespace"]);
  const [idFromName, get] = [readMethod(binding, "idFromName"), readMethod(binding, "get")];
  if (!idFromName || !get) {
    throw new InvalidArgumentError(
      `the option binding is one to a Durable Object, not ${described(binding)}: ` +
        "look at its name in the configuration",
    );
  }
  const namespace = readNamespace(given);

  async function ask(what: Operation, id: Uint8Array, rememberUntil: number, owner: Uint8Array) {
    const object = get?.(idFromName?.(`${namespace}/${hexadecimal(id)}`)) as ReturnType<
      DurableObjectBinding["get"]
    >;
    const query = `until=${rememberUntil}&owner=${hexadecimal(owner)}`;
    const response = await object.fetch(`https://used-token/${what}?${query}`, { method: "POST" });
    const answer = await response.text();
    // Both are answered with a status of their own.
    if (response.ok || answer === TOO_LATE || answer === FULL) return answer;
    throw new StoreUnavailableError(`the Durable Object answered with status ${response.status}`);
  }

  return answering(ask, ": is the Durable Object of the class UsedToken?");
}

/**
 * The farthest ahead that an alarm is set, in milliseconds. The runtime rejects alarms after 2255.
 */
const ALARM_AHEAD = 10 * 365 * 24 * 60 * 60 * 1000;

/** The part of an object's storage that is used. */
interface Storage {
  get(key: "entry"): Promise<Entry | undefined>;
  put(key: "entry", entry: Entry): Promise<void>;
  deleteAll(): Promise<void>;
  getAlarm(): Promise<number | null>;
  setAlarm(milliseconds: number): Promise<void>;
}

/**
 * The Durable Object that remembers one token. A Worker exports it under this name and binds it;
 * its only client is {@link createDurableObjectStore}.
 *
 * While it waits for its storage, the runtime gives an object no other request, and it sends no
 * answer before what was written is safe: reading and then writing is one step.
 */
export class UsedToken {
  /**
   * What the types of Cloudflare know classes of Durable Objects by, as in
   * `DurableObjectNamespace<UsedToken>`.
   */
  declare readonly __DURABLE_OBJECT_BRAND: never;

  readonly #storage: Storage;

  constructor(state: { readonly storage: unknown }) {
    this.#storage = state.storage as Storage;
  }

  async fetch(request: { readonly method: string; readonly url: string }): Promise<ObjectResponse> {
    const { pathname, searchParams } = new URL(request.url);
    if (request.method !== "POST") return new Response("only POST", { status: 405 });
    const what = pathname.slice(1) as Operation;
    if (!Object.hasOwn(OPERATIONS, what)) return new Response("no such method", { status: 404 });
    const rememberUntil = Number(searchParams.get("until") ?? Number.NaN);
    if (!Number.isFinite(rememberUntil)) return new Response("no time", { status: 400 });
    const owner = searchParams.get("owner") ?? "";
    if (!/^[0-9a-f]{32}$/.test(owner)) return new Response("no owner", { status: 400 });
    return this.#change(what, rememberUntil, owner);
  }

  /** Forgets the token, once its time is over. */
  async alarm(): Promise<void> {
    const entry = await this.#storage.get("entry");
    if (entry && entry.rememberUntil > now()) await this.#setAlarm(entry);
    else await this.#storage.deleteAll();
  }

  async #change(what: Operation, rememberUntil: number, owner: string): Promise<Response> {
    const found = await this.#storage.get("entry");
    const { answer, entry } = change(found, what, rememberUntil, owner, now());
    if (entry === undefined)
      return new Response(answer, { status: answer === TOO_LATE ? 410 : 200 });
    await this.#storage.put("entry", entry);
    // The alarm checks the entry, so one that comes too early is set again.
    if ((await this.#storage.getAlarm()) === null) await this.#setAlarm(entry);
    return new Response(answer, { status: answer === FULL ? 507 : 200 });
  }

  async #setAlarm({ rememberUntil }: Entry): Promise<void> {
    await this.#storage.setAlarm(
      Math.min(Math.ceil(rememberUntil * 1000), Date.now() + ALARM_AHEAD),
    );
  }
}

function now(): number {
  return Date.now() / 1000;
}
