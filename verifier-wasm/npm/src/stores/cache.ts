// The store of used tokens in memory: the rules and the structure of `verifier-core/src/cache.rs`.
//
// There is one slot for each owner of each id. A hash table with chains finds the slots of an id. A
// radix heap orders them by the time at which they may be forgotten: the list of a slot is the
// position of the highest bit in which its time differs from the clock, so that an advancing clock
// empties whole lists and splits at most one.

/** How many owners of an id are remembered of each kind. */
const MOST_OWNERS = 100;

/** A step back of the clock by so many seconds is ignored. */
const CLOCK_MARGIN = 300;

/** The latest time: no clock reaches it. */
const FOREVER = 9_007_199_254_740_991;

/** One list for every position of the highest bit that differs, and one for no difference. */
const LISTS = 54;

/** The words of an id, and of an id and an owner. */
const ID = 4;
const NAME = 8;

/** What an owner did with the token; 0 for nothing. */
const USED = 1;
const RELEASED = 2;

/** In place of the number of a try, above every number. */
const WITHDRAWN = 255;

/** What the operations answer. */
export const FIRST_USE = 0;
export const DONE = 0;
export const ALREADY_USED = 1;
export const TOO_LATE = -1;
export const FULL = -2;

/** Judges one operation for the id and the owner that were written; times are whole seconds. */
type Operation = (rememberUntil: number, now: number) => number;

export interface Cache {
  /** The 16 bytes of the id that is asked for, and the 16 of the owner. */
  readonly asked: Uint8Array;
  readonly consume: Operation;
  readonly release: Operation;
  /** Answers the number of the try, 101 for one too many. */
  readonly attempt: Operation;
  readonly withdraw: Operation;
}

/**
 * A cache with so many slots, which takes all of its memory at once. It is full from the time on
 * that an operation did not return: what that has written may be half of it.
 */
export function makeCache(capacity: number): Cache {
  const size = capacity + 1;
  // There is no slot 0: it has the name that is asked for, and is what follows a last slot.
  const names = new Uint32Array(NAME * size);
  const times = new Float64Array(size);
  /** The next slot with the same hash. */
  const inChain = new Uint32Array(size);
  /** The next slot in the same list of the heap, or the next free slot. */
  const inList = new Uint32Array(size);
  /** The first slot of each hash. */
  const chains = new Uint32Array(size);
  /** The number of the owner's try. */
  const numbers = new Uint8Array(size);
  const usages = new Uint8Array(size);
  const lists = new Uint32Array(LISTS);
  let fresh = 0;
  let free = 0;
  let clock = 0;
  /** The latest time of a slot that was forgotten. */
  let forgotten = 0;
  let isBusy = false;

  // What `look` has seen of the id that is asked for: the slot of the owner; whether another owner
  // has the use; how many owners tried or have withdrawn, have tried, have released; until when it
  // is remembered.
  let own = 0;
  let isUsed = false;
  let owners = 0;
  let standing = 0;
  let released = 0;
  let until = 0;
  let isLate = false;

  // Ids are digests, so any bits of them are a hash.
  const homeOf = (slot: number) => 1 + ((names[NAME * slot] as number) % capacity);

  const isAsked = (slot: number, from: number) => {
    for (let word = from; word < from + ID; word++) {
      if (names[NAME * slot + word] !== names[word]) return false;
    }
    return true;
  };

  /** Puts a slot on the list of its time, which is after the clock. */
  const push = (slot: number) => {
    const list = listOf(times[slot] as number, clock);
    inList[slot] = lists[list] as number;
    lists[list] = slot;
  };

  /** Takes a slot that is on no list any more out of its chain. */
  const forget = (slot: number) => {
    const home = homeOf(slot);
    const after = inChain[slot] as number;
    let before = chains[home] as number;
    if (before === slot) chains[home] = after;
    else {
      while (inChain[before] !== slot) before = inChain[before] as number;
      inChain[before] = after;
    }
    inList[slot] = free;
    free = slot;
  };

  /** Moves the clock and forgets what is over. */
  const advance = (now: number) => {
    if (now <= clock && clock - now <= CLOCK_MARGIN) return;
    // Whatever differs from the former clock only below the bit that has now become one is over.
    const last = now > clock ? listOf(now, clock) : LISTS - 1;
    clock = now;
    for (let list = 0; list <= last; list++) {
      let slot = lists[list] as number;
      lists[list] = 0;
      while (slot !== 0) {
        const next = inList[slot] as number;
        if ((times[slot] as number) > now) push(slot);
        else {
          forgotten = Math.max(forgotten, times[slot] as number);
          forget(slot);
        }
        slot = next;
      }
    }
  };

  /** Looks through the slots of the id, whose time is extended if the one asked for is later. */
  const look = (rememberUntil: number, now: number) => {
    advance(now);
    isLate = rememberUntil <= Math.max(clock, forgotten);
    own = owners = standing = released = until = 0;
    isUsed = false;
    for (let slot = chains[homeOf(0)] as number; slot !== 0; slot = inChain[slot] as number) {
      if (!isAsked(slot, 0)) continue;
      // A slot whose time is extended stays on its list, which is emptied no later than it should.
      until = times[slot] = Math.max(times[slot] as number, rememberUntil);
      if (numbers[slot] !== 0) owners++;
      if (numbers[slot] !== 0 && numbers[slot] !== WITHDRAWN) standing++;
      if (usages[slot] === RELEASED) released++;
      if (isAsked(slot, ID)) own = slot;
      else if (usages[slot] === USED) isUsed = true;
    }
  };

  /** The slot of the owner, made if there is none; 0 if there is no room. */
  const owned = (rememberUntil: number) => {
    if (own !== 0) return own;
    if (free === 0 && fresh === capacity) return 0;
    const slot = free === 0 ? ++fresh : free;
    if (slot === free) free = inList[slot] as number;
    names.copyWithin(NAME * slot, 0, NAME);
    times[slot] = Math.max(rememberUntil, until);
    numbers[slot] = usages[slot] = 0;
    const home = homeOf(slot);
    inChain[slot] = chains[home] as number;
    chains[home] = slot;
    push(slot);
    return slot;
  };

  /** What is written into the slot of the owner, if there is room. */
  const write = (into: Uint8Array, value: number, rememberUntil: number, answer: number) => {
    const slot = owned(rememberUntil);
    if (slot === 0) return FULL;
    into[slot] = value;
    return answer;
  };

  const operation =
    (judge: (rememberUntil: number) => number): Operation =>
    (rememberUntil, now) => {
      if (isBusy) return FULL;
      isBusy = true;
      const time = Math.min(Math.max(rememberUntil, 0), FOREVER);
      look(time, now);
      const answer = judge(time);
      isBusy = false;
      return answer;
    };

  return {
    asked: new Uint8Array(names.buffer, 0, 4 * NAME),
    consume: operation((time) => {
      if (isLate) return TOO_LATE;
      if (isUsed || usages[own] === RELEASED) return ALREADY_USED;
      // A use that could not be released later would stay, and so would one whose release came
      // before it.
      if (usages[own] !== USED && released >= MOST_OWNERS) return FULL;
      return write(usages, USED, time, FIRST_USE);
    }),
    release: operation((time) => {
      // No consumption with this time is a first use any more.
      if (own === 0 && isLate) return DONE;
      if (usages[own] === 0 && released >= MOST_OWNERS) return FULL;
      return write(usages, RELEASED, time, DONE);
    }),
    attempt: operation((time) => {
      if (isLate) return TOO_LATE;
      let number = numbers[own] as number;
      if (number === 0 && owners < MOST_OWNERS) {
        number = standing + 1;
        return write(numbers, number, time, number);
      }
      return number === 0 || number === WITHDRAWN ? MOST_OWNERS + 1 : number;
    }),
    withdraw: operation((time) => {
      // With a slot of its own, or at the bound, no later attempt of this owner gets a number.
      if (numbers[own] === 0 && (isLate || owners >= MOST_OWNERS)) return DONE;
      return write(numbers, WITHDRAWN, time, DONE);
    }),
  };
}

/** The list for a time, seen from the clock. */
function listOf(time: number, clock: number): number {
  const high = Math.floor(time / 2 ** 32) ^ Math.floor(clock / 2 ** 32);
  // `^` takes the low 32 bits of what is below 2 ** 53.
  return high === 0 ? 32 - Math.clz32(time ^ clock) : 64 - Math.clz32(high);
}
