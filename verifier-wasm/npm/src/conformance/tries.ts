// Every try of a code has a number of its own, taken before anybody looks at the code.

import {
  attempt,
  type Check,
  consume,
  demand,
  demandDone,
  freshId,
  freshOwner,
  isOrdinal,
  later,
  Skipped,
  shown,
  withdraw,
} from "./subject.js";
import { MOST } from "./uses.js";

const NONE = new Skipped("the store has no attempt; the guard refuses recoveries");

export const numbers: Check = async (subject) => {
  const { store, concurrency } = subject;
  if (!store.attempt) return NONE;
  const until = later(subject);
  const id = freshId();
  const taken = await Promise.all(
    Array.from({ length: concurrency }, () => attempt(store, id, until)),
  );
  const other = taken.find((answer) => !isOrdinal(answer));
  demand(other === undefined, `attempt answered ${shown(other)} instead of a whole number from 1`);
  const counted = Math.min(concurrency, MOST);
  const found = (taken as number[]).sort((one, another) => one - another);
  for (const [place, number] of found.entries()) {
    const expected = Math.min(place, MOST) + 1;
    const instead = number === (found[place - 1] ?? 0) ? "given twice" : number;
    demand(number === expected, `of ${concurrency} tries at once number ${expected} is ${instead}`);
  }
  const next = await attempt(store, id, until);
  demand(next === counted + 1, `the number after ${concurrency} tries is ${shown(next)}`);
  const another = await attempt(store, freshId(), until);
  demand(another === 1, `the first number of another id is ${shown(another)}`);
  return undefined;
};

export const withdrawing: Check = async (subject) => {
  const { store } = subject;
  if (!store.attempt) return NONE;
  if (!store.withdraw)
    return new Skipped("the store has no withdraw; a try without a verdict stays counted");
  const until = later(subject);
  const id = freshId();
  const [first, second, third] = [freshOwner(), freshOwner(), freshOwner()];
  const number = async (owner: Uint8Array, expected: number, what: string) => {
    const answer = await attempt(store, id, until, owner);
    demand(answer === expected, `${what} has the number ${shown(answer)}, not ${expected}`);
  };
  await number(first, 1, "the first try");
  await number(second, 2, "the second try");
  for (const time of ["", " again"]) {
    await demandDone("withdraw", withdraw(store, id, until, first));
    await number(first, MOST + 1, `a try that was taken back${time}`);
    await number(second, 2, "a try beside one that was taken back");
  }
  await number(third, 2, "the try after one was taken back");
  const early = freshOwner();
  await demandDone("a withdraw that comes before its attempt", withdraw(store, id, until, early));
  await number(early, MOST + 1, "a try that was taken back before it came");
  await number(freshOwner(), 3, "the try after that");
  demand(
    (await consume(store, id, until, first)) === true,
    "a try that was taken back used the token",
  );
  return undefined;
};

export const triesAreBounded: Check = async (subject) => {
  const { store } = subject;
  if (!store.attempt) return NONE;
  const until = later(subject);
  const id = freshId();
  const owners = Array.from({ length: MOST }, freshOwner);
  const taken = await Promise.all(owners.map((owner) => attempt(store, id, until, owner)));
  const other = taken.find((answer) => !isOrdinal(answer) || answer > MOST);
  demand(other === undefined, `of ${MOST} tries at once one has the number ${shown(other)}`);
  // Most are taken back: they count for the bound all the same.
  const withdrawn = store.withdraw ? owners.slice(10) : [];
  await Promise.all(
    withdrawn.map((owner) => demandDone("withdraw", withdraw(store, id, until, owner))),
  );
  for (let round = 0; round < 3; round++) {
    const owner = freshOwner();
    const answer = await attempt(store, id, until, owner);
    demand(
      answer === MOST + 1,
      `after ${MOST} owners have tried, the next gets ${shown(answer)}, not ${MOST + 1}`,
    );
    if (store.withdraw) await withdraw(store, id, until, owner);
  }
  for (const [place, owner] of owners.slice(0, 11).entries()) {
    const expected = withdrawn.includes(owner) ? MOST + 1 : taken[place];
    const again = await attempt(store, id, until, owner);
    demand(
      again === expected,
      `then a try that had the number ${shown(expected)} has ${shown(again)} when it is repeated`,
    );
  }
  return undefined;
};

export const triesAreNoUses: Check = async (subject) => {
  const { store } = subject;
  if (!store.attempt) return NONE;
  const until = later(subject);
  const id = freshId();
  await attempt(store, id, until);
  demand(
    (await consume(store, id, until)) === true,
    "an id of which only codes were tried is denied",
  );
  const second = await attempt(store, id, until);
  demand(second === 2, `the second try, after the use, has the number ${shown(second)}`);
  demand(
    (await consume(store, id, until)) === false,
    "an id is not denied after a code was tried again",
  );
  return undefined;
};
