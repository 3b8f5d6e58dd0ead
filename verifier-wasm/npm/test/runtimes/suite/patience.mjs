// Waits for promises that may never come to anything, with one timer for all: workerd gives a
// request 10,000 of them, and those of a guard do not keep a program running.

/**
 * How long is waited for what may hang, in milliseconds: counted in turns of the event loop, in
 * which a promise settles that does not wait for another process.
 */
export const BRIEFLY = 300;
/** The same for what may not: a thread may be late that a platform has for its cryptography. */
const PATIENCE = 60_000;
const TURN = 50;

/** What `within` answers for what takes longer. */
export const HANGS = Symbol("hangs");

/**
 * @param {(within: <T>(promise: T, patience?: number) => Promise<T | typeof HANGS>) => Promise<R>}
 * use
 * @returns {Promise<R>}
 */
export async function withPatience(use) {
  const waiting = new Set();
  const timer = setInterval(() => {
    for (const one of waiting) {
      one.left -= TURN;
      if (one.left <= 0) one.give(HANGS);
    }
  }, TURN);
  const within = async (promise, patience = PATIENCE) => {
    let one;
    const over = new Promise((give) => {
      one = { give, left: patience };
    });
    waiting.add(one);
    try {
      return await Promise.race([promise, over]);
    } finally {
      waiting.delete(one);
    }
  };
  try {
    return await use(within);
  } finally {
    clearInterval(timer);
  }
}
