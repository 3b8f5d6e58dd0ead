// What a store remembers until its time is over, and no longer. These checks take some seconds
// each, side by side.

import {
  attempt,
  type Check,
  consume,
  demand,
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
const SHORT = 3;
/** How long after the end a store may still remember. */
const GRACE = 1.5;
const PAUSE = 0.25;

export const remembers: Check = async (subject) => {
  const { store, now, sleep } = subject;
  const until = later(subject, SHORT);
  const [id, ended, tried] = [freshId(), freshId(), freshId()];
  const [released, withdrawn] = [freshOwner(), freshOwner()];
  demand((await consume(store, id, until)) === true, "an id that nobody had before is denied");
  await release(store, ended, until, released);
  await withdraw(store, tried, until, withdrawn);
  while (now() < until - 2 * PAUSE) {
    const left = `${(until - now()).toFixed(1)} s before its time`;
    const answer = await consume(store, id, until);
    demand(answer === false, `${left} an entry is not denied, but ${shown(answer)}`);
    if (store.release) {
      const revived = await consume(store, ended, until, released);
      demand(
        revived === false,
        `${left} an owner that was released is not denied, but ${shown(revived)}`,
      );
    }
    if (store.attempt && store.withdraw) {
      const number = await attempt(store, tried, until, withdrawn);
      demand(number === 101, `${left} a try that was taken back has the number ${shown(number)}`);
    }
    // What cleans up in passing has something to do.
    await consume(store, freshId(), later(subject, 1));
    await sleep(PAUSE);
  }
  return undefined;
};

export const forgets: Check = async (subject) => {
  const { store } = subject;
  const until = later(subject, SHORT);
  const [id, tried] = [freshId(), freshId()];
  demand((await consume(store, id, until)) === true, "an id that nobody had before is denied");
  await attempt(store, tried, until);
  await sleepUntil(subject, until + GRACE);
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
  const until = later(subject, SHORT);
  const id = freshId();
  demand((await consume(store, id, until)) === true, "an id that nobody had before is denied");
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
  const { store } = subject;
  const [short, long] = [later(subject, SHORT), later(subject)];
  const [extended, shortened, tried] = [freshId(), freshId(), freshId()];
  demand(
    (await consume(store, extended, short)) === true,
    "an id that nobody had before is denied",
  );
  demand((await consume(store, extended, long)) === false, "an id that was consumed is not denied");
  demand(
    (await consume(store, shortened, long)) === true,
    "an id that nobody had before is denied",
  );
  demand(
    (await consume(store, shortened, short)) === false,
    "an id that was consumed is not denied",
  );
  await attempt(store, tried, short);
  await attempt(store, tried, long);
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

async function sleepUntil({ now, sleep }: Subject, time: number): Promise<void> {
  while (now() < time) await sleep(Math.max(time - now(), 0.01));
}
