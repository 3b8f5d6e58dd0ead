import { InvalidArgumentError, StoreFullError, TokenExpiredError } from "./errors.js";
import type * as Exports from "./generated/verifier_bg.wasm.js";
import { readOptions } from "./options.js";
import { readClock } from "./seconds.js";
import { Stack } from "./stack.js";
import type { TokenStore } from "./token_store.js";

/** What {@link createMemoryStore} takes. Options of other names are refused. */
export interface MemoryStoreOptions {
  /**
   * For how many tokens there is room, each taking 40 bytes from the start. Those that are used and tried within the
   * lifetime of a link and five minutes have to fit.
   */
  readonly capacity: number;
  /**
   * Tells the time in seconds since the Unix epoch; read at each call. The highest it ever told counts.
   *
   * @default the system's clock
   */
  readonly clock?: (() => number) | undefined;
}

/** A store that answers at once. */
export interface MemoryStore extends TokenStore {
  consume(id: Uint8Array, rememberUntil: number): boolean;
  attempt(id: Uint8Array, rememberUntil: number): number;
  release(id: Uint8Array): void;
}

const ID_LENGTH = 16;

/** One gibibyte, which wasm engines give. */
const MOST = 26_843_545;

/**
 * @internal What every entry calls `createMemoryStore`: the cache of the core, on an instance of the module of its own, because it
 * grows the memory, which moves what others have looked up.
 *
 * If JavaScript's stack overflows in the middle of a call, what the store remembers may be half written: from then on it
 * answers that it is full.
 */
export function makeMemoryStore(module: WebAssembly.Module, options: unknown): MemoryStore {
  const [capacity, clock] = readOptions(options, ["capacity", "clock"]);
  if (!Number.isInteger(capacity) || !((capacity as number) >= 1 && (capacity as number) <= MOST)) {
    throw new InvalidArgumentError(`the option capacity is a whole number from 1 to ${MOST}`);
  }
  const now = readClock(clock);
  const instance = new WebAssembly.Instance(module);
  const exports = instance.exports as unknown as typeof Exports;
  const stack = new Stack(instance);
  if (!exports.open_store(capacity as number)) {
    throw new InvalidArgumentError("not enough memory for this capacity");
  }
  const place = new Uint8Array(exports.memory.buffer, exports.buffers(), ID_LENGTH);

  function write(id: Uint8Array): void {
    if (id.length !== ID_LENGTH) throw new InvalidArgumentError("an id has 16 bytes");
    place.set(id);
  }

  return Object.freeze<MemoryStore>({
    consume(id, rememberUntil) {
      // The clock may be code of the caller, so it is read before anything is written.
      const time = Math.floor(now());
      write(id);
      stack.enter();
      const answer = exports.consume(Math.ceil(rememberUntil), time);
      stack.leave();
      if (answer === 0) return true;
      if (answer === 1) return false;
      throw answer === 2 ? tooLate() : full();
    },
    attempt(id, rememberUntil) {
      const time = Math.floor(now());
      write(id);
      stack.enter();
      const answer = exports.attempt(Math.ceil(rememberUntil), time);
      stack.leave();
      if (answer > 0) return answer;
      throw answer === 0 ? tooLate() : full();
    },
    release(id) {
      write(id);
      stack.enter();
      exports.release();
      stack.leave();
    },
  });
}

function tooLate(): TokenExpiredError {
  return new TokenExpiredError("the token has expired");
}

function full(): StoreFullError {
  return new StoreFullError("the store is full; give it a larger capacity");
}
