// Waiting, for as long as a machine may need that is busy with something else.

import { setTimeout as sleep } from "node:timers/promises";

/** How long anything is waited for, in milliseconds. Nothing that is well takes a tenth of it. */
export const PATIENCE = 120_000;

/**
 * For servers of tests, whose connections are used again. Node closes one that was idle for five
 * seconds: on a busy machine just as the request comes that has been on its way as long.
 */
export const KEPT_OPEN = { keepAliveTimeout: PATIENCE };

/** Asks again until there is an answer. @param what is named when it does not come */
export async function until(what, ask, patience = PATIENCE) {
  for (const end = Date.now() + patience; ; await sleep(100)) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (Date.now() >= end) throw new Error(`${what}: waited for in vain for ${patience / 1000} s`);
  }
}

/** What a promise comes to. */
export async function within(what, promise, patience = PATIENCE) {
  let timer;
  const over = new Promise((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`${what}: waited for in vain for ${patience / 1000} s`)),
      patience,
    );
  });
  try {
    return await Promise.race([promise, over]);
  } finally {
    clearTimeout(timer);
  }
}
