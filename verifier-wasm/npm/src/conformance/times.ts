// What a store remembers until its time is over, and no longer. These checks take some seconds
// each, side by side.

import {
  attempt,
  type Check,
  consume,
  demand,
  Fault,
  freshId,
  freshOwner,
  isOrdinal,
  later,
  release,
  type Subject,
  shown,
  withdraw,
} from "./subject.js";

/** How long the entries of these checks are remembered, give or take the rest of a second. */
const SHORT = 4;
/** The same at most, where the machine was too slow for less. */
const LONGEST = 32;
/** How long after the end a store may still remember. */
const GRACE = 1.5;
const PAUSE = 0.25;

export const remembers: Check = async (subject) => {
  const { store, now, sleep } = subject;
  await inTime(subject, async (until, seconds) => {
    const [id, ended, tried] = [freshId(), freshId(), freshId()];
    const [released, withdrawn] = [freshOwner(), freshOwner()];
    const isEarly = () => now() < until - 2 * PAUSE;
    const first = await consume(store, id, until);
    await release(store, ended, until, released);
    await withdraw(store, tried, until, withdrawn);
    if (isEarly()) demandFirst(first);
    for (let isLookedAt = false; ; ) {
      const before = until - now();
      const left = `${before.toFixed(1)} s before its time`;
      const answer = await consume(store, id, until);
      const revived = store.release ? await consume(store, ended, until, released) : false;
      const number =
        store.attempt && store.withdraw ? await attempt(store, tried, until, withdrawn) : 101;
      if (!isEarly()) return isLookedAt;
      demand(answer === false, `${left} an entry is not denied, but ${shown(answer)}`);
      demand(
        revived === false,
        `${left} an owner that was released is not denied, but ${shown(revived)}`,
      );
      demand(number === 101, `${left} a try that was taken back has the number ${shown(number)}`);
      if (before < seconds / 2) isLookedAt = true;
      // What cleans up in passing has something to do.
      await consume(store, freshId(), later(subject, 1));
      await sleep(PAUSE);
    }
  });
  return undefined;
};

export const forgets: Check = async (subject) => {
  const { store, now } = subject;
  let [id, tried] = [freshId(), freshId()];
  const over = await inTime(subject, async (until) => {
    [id, tried] = [freshId(), freshId()];
    const first = await consume(store, id, until);
    await attempt(store, tried, until);
    if (now() >= until) return false;
    demandFirst(first);
    return true;
  });
  await sleepUntil(subject, over + GRACE);
  const again = await consume(store, id, later(subject));
  demand(
    again === true,
    `${GRACE} s after its time an entry is still there, so the store grows without end`,
  );
  if (!store.attempt) return undefined;
  const number = await attempt(store, tried, later(subject));
  demand(
    number === 1,
    `${GRACE} s after their time tries are still counted: the next is ${shown(number)}`,
  );
  return undefined;
};

export const past: Check = async (subject) => {
  const { store, now } = subject;
  let id = freshId();
  const until = await inTime(subject, async (until) => {
    id = freshId();
    const first = await consume(store, id, until);
    if (now() >= until) return false;
    demandFirst(first);
    return true;
  });
  for (const over of [1, Math.floor(now()) - 3600, Math.floor(now()) - 5]) {
    const ago = Math.round(now() - over);
    demand(
      (await consume(store, freshId(), over)) !== true,
      `a use that was to be remembered until ${ago} s ago is let through`,
    );
    const number = await attempt(store, freshId(), over);
    demand(
      !isOrdinal(number),
      `a try that was to be remembered until ${ago} s ago gets the number ${shown(number)}`,
    );
  }
  await sleepUntil(subject, until + GRACE);
  const again = await consume(store, id, until);
  demand(again !== true, "a token is let through again once its use may be forgotten");
  return undefined;
};

export const extending: Check = async (subject) => {
  const { store, now } = subject;
  let [extended, shortened, tried] = [freshId(), freshId(), freshId()];
  let long = 0;
  const short = await inTime(subject, async (until) => {
    [extended, shortened, tried] = [freshId(), freshId(), freshId()];
    long = later(subject);
    const first = [await consume(store, extended, until), await consume(store, shortened, long)];
    const second = [await consume(store, extended, long), await consume(store, shortened, until)];
    await attempt(store, tried, until);
    await attempt(store, tried, long);
    if (now() >= until) return false;
    for (const answer of first) demandFirst(answer);
    for (const answer of second) demand(answer === false, "an id that was consumed is not denied");
    return true;
  });
  await sleepUntil(subject, short + GRACE);
  demand(
    (await consume(store, extended, long)) === false,
    "a later time for the same id did not extend its entry",
  );
  demand(
    (await consume(store, shortened, long)) === false,
    "an earlier time for the same id cut its entry short",
  );
  if (!store.attempt) return undefined;
  const number = await attempt(store, tried, long);
  demand(
    number === 3,
    `a later time for an id did not keep its tries: the third has the number ${shown(number)}`,
  );
  return undefined;
};

function demandFirst(answer: unknown): void {
  demand(answer === true, "an id that nobody had before is denied");
}

/**
 * Does what has to be done before a short time is over, and returns that time. What was not in
 * time says nothing about the store: it is done again, with more time.
 */
async function inTime(
  subject: Subject,
  isInTime: (until: number, seconds: number) => Promise<boolean>,
): Promise<number> {
  for (let seconds = SHORT; seconds <= LONGEST; seconds *= 2) {
    const until = later(subject, seconds);
    if (await isInTime(until, seconds)) return until;
  }
  throw new Fault(`its answers take too long to be judged within ${LONGEST} s`);
}

async function sleepUntil({ now, sleep }: Subject, time: number): Promise<void> {
  while (now() < time) await sleep(Math.max(time - now(), 0.01));
}
