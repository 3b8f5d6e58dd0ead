import { demandEntry } from "../arguments/bytes.js";
import { readOptions } from "../arguments/options.js";
import { readClock } from "../arguments/seconds.js";
import { InvalidArgumentError, StoreFullError, TokenExpiredError } from "../errors/errors.js";
import type * as Exports from "../wasm/generated/verifier_bg.wasm.js";
import { Stack } from "../wasm/stack.js";
import type { TokenStore } from "./token_store.js";

/** What {@link createMemoryStore} takes. Options of other names are refused. */
export interface MemoryStoreOptions {
  /**
   * How many redemptions and attempts at codes it holds, 56 bytes each, which are allocated at
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

/** One gibibyte, which wasm engines give. */
const MOST = 19_173_961;

/** What the module answers to all calls but `attempt`. */
const TOO_LATE = 2;

/**
 * @internal What every entry calls `createMemoryStore`: the cache of the core, on an instance of
 * the module of its own, because it grows the memory, which moves the buffers.
 *
 * If JavaScript's stack overflows in the middle of a call, what the store remembers may be half
 * written: from then on it answers that it is full.
 */
export function makeMemoryStore(module: WebAssembly.Module, options: unknown): MemoryStore {
  const [capacity, clock] = readOptions(options, ["capacity", "clock"]);
  if (!Number.isInteger(capacity) || !((capacity as number) >= 1 && (capacity as number) <= MOST)) {
    throw new InvalidArgumentError(`the option capacity must be a whole number from 1 to ${MOST}`);
  }
  const now = readClock(clock);
  const instance = new WebAssembly.Instance(module);
  const exports = instance.exports as unknown as typeof Exports;
  const stack = new Stack(instance);
  if (!exports.open_store(capacity as number)) {
    throw new InvalidArgumentError("not enough memory for this capacity");
  }
  const place = new Uint8Array(exports.memory.buffer, exports.buffers(), 2 * LENGTH);

  function ask(
    question: (rememberUntil: number, now: number) => number,
    id: Uint8Array,
    rememberUntil: number,
    owner: Uint8Array,
  ): number {
    // The clock may be code of the caller, so it is read before anything is written.
    const time = Math.floor(now());
    demandEntry(id, rememberUntil, owner);
    place.set(id);
    place.set(owner, LENGTH);
    stack.enter();
    const answer = question(Math.ceil(rememberUntil), time);
    stack.leave();
    return answer;
  }

  return Object.freeze<MemoryStore>({
    consume(id, rememberUntil, owner) {
      const answer = ask(exports.consume, id, rememberUntil, owner);
      if (answer > 1) throw answer === TOO_LATE ? tooLate() : full();
      return answer === 0;
    },
    release(id, rememberUntil, owner) {
      if (ask(exports.release, id, rememberUntil, owner)) throw full();
    },
    attempt(id, rememberUntil, owner) {
      const answer = ask(exports.attempt, id, rememberUntil, owner);
      if (answer <= 0) throw answer === 0 ? tooLate() : full();
      return answer;
    },
    withdraw(id, rememberUntil, owner) {
      if (ask(exports.withdraw, id, rememberUntil, owner)) throw full();
    },
  });
}

function tooLate(): TokenExpiredError {
  return new TokenExpiredError("the token has expired");
}

function full(): StoreFullError {
  return new StoreFullError("the store is full (raise capacity), or a link was released too often");
}
