// Every try of a code has a number of its own, taken before anybody looks at the code.

import {
  attempt,
  type Check,
  consume,
  demand,
  freshId,
  isOrdinal,
  later,
  Skipped,
  shown,
} from "./subject.js";

const NONE = new Skipped("the store has no attempt; the guard refuses recoveries");

export const numbers: Check = async (subject) => {
  const { store } = subject;
  // As many as a store has to number.
  const concurrency = Math.min(subject.concurrency, 99);
  if (!store.attempt) return NONE;
  const until = later(subject);
  const id = freshId();
  const taken = await Promise.all(Array.from({ length: concurrency }, () => attempt(store, id, until)));
  const other = taken.find((answer) => !isOrdinal(answer));
  demand(other === undefined, `attempt answered ${shown(other)} instead of a whole number from 1`);
  const different = new Set(taken).size;
  demand(different === concurrency, `${concurrency} tries at once got only ${different} different numbers`);
  const highest = Math.max(...(taken as number[]));
  demand(highest === concurrency, `the numbers of ${concurrency} tries go up to ${highest}`);
  const next = await attempt(store, id, until);
  demand(next === concurrency + 1, `the number after ${concurrency} tries is ${shown(next)}`);
  const another = await attempt(store, freshId(), until);
  demand(another === 1, `the first number of another id is ${shown(another)}`);
  return undefined;
};

export const triesAreNoUses: Check = async (subject) => {
  const { store } = subject;
  if (!store.attempt) return NONE;
  const until = later(subject);
  const id = freshId();
  await attempt(store, id, until);
  demand((await consume(store, id, until)) === true, "an id of which only codes were tried is denied");
  const second = await attempt(store, id, until);
  demand(second === 2, `the second try, after the use, has the number ${shown(second)}`);
  demand((await consume(store, id, until)) === false, "an id is not denied after a code was tried again");
  return undefined;
};
