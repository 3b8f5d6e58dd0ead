/**
 * A store of used tokens in Deno KV.
 *
 * @module
 */

import { described } from "../../arguments/described.js";
import { readMethod, readOptions } from "../../arguments/options.js";
import { readClock } from "../../arguments/seconds.js";
import { InvalidArgumentError, StoreUnavailableError } from "../../errors/errors.js";
import { hexadecimal, readNamespace } from "../../stores/base.js";
import {
  answering,
  change,
  type Entry,
  isEnd,
  isSame,
  type Operation,
} from "../../stores/entry.js";
import type { TokenStore } from "../../stores/token_store.js";

/** The part of a `Deno.Kv` that is used. */
export interface DenoKv {
  // biome-ignore lint/suspicious/noExplicitAny: the runtime types keys and entries too narrowly
  get(key: any): Promise<{ readonly value: unknown; readonly versionstamp: string | null }>;
  // biome-ignore lint/suspicious/noExplicitAny: the same
  atomic(): any;
}

/** What {@link createDenoKvStore} takes. Options of other names are refused. */
export interface DenoKvStoreOptions {
  /** What `Deno.openKv` returns. */
  readonly kv: DenoKv;
  /**
   * Begins every key: 1 to 64 letters, digits, dots, hyphens and underscores.
   * One for each installation.
   */
  readonly namespace: string;
  /**
   * Tells the time in seconds since the Unix epoch,
   * from which it follows for how long an entry is remembered.
   *
   * @default the system's clock
   */
  readonly clock?: (() => number) | undefined;
}

/** How often an operation is tried whose entry another process changes in between. */
const ROUNDS = 20;

/**
 * Remembers used tokens in Deno KV, each in one entry, by the clock of whoever asks: one that has
 * read the future lets entries end sooner, or refuses links that are still valid, only as long as
 * it does. Entries end by themselves.
 *
 * The first operation on a link is one round trip, a later one three: Deno KV can compare and write
 * in one step, but cannot answer with what was there. Operations of one process on one link wait
 * for each other.
 *
 * An operation is a strongly consistent transaction of the primary region, so that of all processes
 * and regions one gets a link; a database that was restored from a backup forgets what came after
 * it. Processes that share a database in a file get the error "database is locked" while another
 * one writes, and the guard denies.
 *
 * @throws InvalidArgumentError
 * @example
 * const store = createDenoKvStore({ kv: await Deno.openKv(), namespace: "mailroom" });
 */
export function createDenoKvStore(options: DenoKvStoreOptions): Required<TokenStore> {
  const [kv, given, clock] = readOptions(options, ["kv", "namespace", "clock"]);
  const [get, atomic] = [readMethod(kv, "get"), readMethod(kv, "atomic")];
  if (!get || !atomic) {
    throw new InvalidArgumentError(
      `the option kv is what Deno.openKv returns, not ${described(kv)}`,
    );
  }
  const namespace = readNamespace(given);
  const now = readClock(clock);
  const inTurn = turns();
  const read = async (key: readonly string[]) => (await get(key)) as Found;
  const begin = () => atomic() as Transaction;

  async function ask(
    what: Operation,
    id: string,
    rememberUntil: number,
    owner: string,
  ): Promise<string> {
    const key = ["mailroom", namespace, id];
    // Mostly nothing is there, which the commit finds out. What is to be ended is there.
    let found: Found = isEnd(what) ? await read(key) : { key, value: null, versionstamp: null };
    for (let round = 0; round < ROUNDS; round += 1) {
      const before = (found.value ?? undefined) as Entry | undefined;
      const { answer, entry } = change(before, what, rememberUntil, owner, now());
      if (entry === undefined || (before && isSame(before, entry))) return answer;
      const expireIn = Math.max(Math.ceil((entry.rememberUntil - now()) * 1000), 1);
      const { ok } = await begin().check(found).set(key, entry, { expireIn }).commit();
      if (ok === true) return answer;
      found = await read(key);
    }
    throw new StoreUnavailableError("others change the entry of this link all the time");
  }

  return answering((what, id, rememberUntil, owner) => {
    // Both are only lent.
    const [ofToken, ofOwner] = [hexadecimal(id), hexadecimal(owner)];
    return inTurn(ofToken, () => ask(what, ofToken, rememberUntil, ofOwner));
  });
}

interface Found {
  readonly key: readonly string[];
  readonly value: unknown;
  readonly versionstamp: string | null;
}

interface Transaction {
  check(found: Found): Transaction;
  set(key: readonly string[], value: Entry, options: { expireIn: number }): Transaction;
  commit(): Promise<{ readonly ok: boolean }>;
}

/**
 * Lets those with the same id go one after the other,
 * since at once they would only disturb each other.
 */
function turns(): <T>(id: string, doing: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<unknown>>();
  return (id, doing) => {
    const mine = (last.get(id) ?? Promise.resolve()).then(doing, doing);
    last.set(id, mine);
    const end = () => {
      if (last.get(id) === mine) last.delete(id);
    };
    mine.then(end, end);
    return mine;
  };
}
