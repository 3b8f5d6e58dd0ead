import { demandEntry } from "../arguments/bytes.js";
import { readOptions } from "../arguments/options.js";
import { readClock } from "../arguments/seconds.js";
import { InvalidArgumentError, StoreFullError, TokenExpiredError } from "../errors/errors.js";
import { ALREADY_USED, FULL, makeCache, TOO_LATE } from "./cache.js";
import type { TokenStore } from "./token_store.js";

/** What {@link createMemoryStore} takes. Options of other names are refused. */
export interface MemoryStoreOptions {
  /**
   * How many redemptions and attempts at codes it holds, 54 bytes each, which are allocated at
   * once. Those within the lifetime of a link and 22 minutes have to fit; of the link handler each
   * redemption counts twice.
   */
  readonly capacity: number;
  /**
   * Tells the time in seconds since the Unix epoch; read at each call. Steps back of up to five
   * minutes are ignored. After a clock was ahead, links are refused that end no later than one that
   * was redeemed before; newer ones are not.
   *
   * @default the system's clock
   */
  readonly clock?: (() => number) | undefined;
}

/** A synchronous store. */
export interface MemoryStore extends TokenStore {
  consume(id: Uint8Array, rememberUntil: number, owner: Uint8Array): boolean;
  release(id: Uint8Array, rememberUntil: number, owner: Uint8Array): void;
  attempt(id: Uint8Array, rememberUntil: number, owner: Uint8Array): number;
  withdraw(id: Uint8Array, rememberUntil: number, owner: Uint8Array): void;
}

/** Of an id, and of an owner. */
const LENGTH = 16;

/** About one gibibyte. */
const MOST = 19_173_961;

/**
 * @internal What every entry calls `createMemoryStore`.
 *
 * If JavaScript's stack overflows in the middle of a call, what the store remembers may be half
 * written: from then on it answers that it is full.
 */
export function makeMemoryStore(options: unknown): MemoryStore {
  const [capacity, clock] = readOptions(options, ["capacity", "clock"]);
  if (!Number.isInteger(capacity) || !((capacity as number) >= 1 && (capacity as number) <= MOST)) {
    throw new InvalidArgumentError(`the option capacity must be a whole number from 1 to ${MOST}`);
  }
  const now = readClock(clock);
  const cache = cacheOf(capacity as number);

  function ask(
    question: (rememberUntil: number, now: number) => number,
    id: Uint8Array,
    rememberUntil: number,
    owner: Uint8Array,
  ): number {
    // The clock may be code of the caller, so it is read before anything is written.
    const time = Math.floor(now());
    demandEntry(id, rememberUntil, owner);
    cache.asked.set(id);
    cache.asked.set(owner, LENGTH);
    const answer = question(Math.ceil(rememberUntil), time);
    if (answer === TOO_LATE) throw new TokenExpiredError("the token has expired");
    if (answer === FULL) throw full();
    return answer;
  }

  return Object.freeze<MemoryStore>({
    consume: (...given) => ask(cache.consume, ...given) !== ALREADY_USED,
    release(...given) {
      ask(cache.release, ...given);
    },
    attempt: (...given) => ask(cache.attempt, ...given),
    withdraw(...given) {
      ask(cache.withdraw, ...given);
    },
  });
}

function cacheOf(capacity: number) {
  try {
    return makeCache(capacity);
  } catch (cause) {
    throw new InvalidArgumentError("not enough memory for this capacity", { cause });
  }
}

function full(): StoreFullError {
  return new StoreFullError("the store is full (raise capacity), or a link was released too often");
}
