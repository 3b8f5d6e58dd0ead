// Of all who ask for one id, one is the first; other ids have nothing to do with it.

import { attempt, type Check, consume, demand, freshId, later, Skipped, shown } from "./subject.js";

const ROUNDS = 5;

export const oneWinner: Check = async (subject) => {
  const { store, concurrency } = subject;
  const until = later(subject);
  for (let round = 0; round < ROUNDS; round++) {
    const id = freshId();
    const answers = await Promise.all(Array.from({ length: concurrency }, () => consume(store, id, until)));
    const winners = answers.filter((answer) => answer === true).length;
    demand(winners === 1, `of ${concurrency} who consumed one id at once, ${winners} were told true`);
    const other = answers.find((answer) => typeof answer !== "boolean");
    demand(other === undefined, `consume answered ${shown(other)} instead of true or false`);
    demand((await consume(store, id, until)) === false, "an id that was consumed is not denied afterwards");
  }
  return undefined;
};

/** Ids that some way to write bytes as text takes for one: lost case, lost zeros, bytes that are no UTF-8, cut at NUL. */
const LOOKALIKES: readonly (readonly number[])[] = [
  [0x41],
  [0x61],
  [0x01, 0x23],
  [0x12, 0x03],
  [0x00, 0x00, 0x01],
  [0x00, 0x01, 0x00],
  [0xfe],
  [0xff],
  [0xc3, 0x28],
  [0xef, 0xbf, 0xbd],
  [0x0a],
  [0x0d],
  [0x20],
];

export const ids: Check = async (subject) => {
  const { store } = subject;
  const until = later(subject);
  // None of the others differs from it in one bit.
  const base = freshId().fill(0x55, 0, 3);
  const similar = LOOKALIKES.map((bytes) => {
    const id = base.slice();
    id.set(bytes);
    return id;
  });
  for (let bit = 0; bit < 128; bit++) {
    const id = base.slice();
    id[bit >> 3] = (id[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    similar.push(id);
  }
  demand((await consume(store, base, until)) === true, "an id that nobody had before is denied");
  const first = await Promise.all(similar.map((id) => consume(store, id, until)));
  demand(
    first.every((answer) => answer === true),
    "an id is denied because another one was consumed that differs only a little",
  );
  const second = await Promise.all([base, ...similar].map((id) => consume(store, id, until)));
  demand(
    second.every((answer) => answer === false),
    "an id is not denied after others were consumed that differ only a little",
  );
  return undefined;
};

export const release: Check = async (subject) => {
  const { store } = subject;
  if (!store.release) return new Skipped("the store has no release; what a callback could not do stays used");
  const until = later(subject);
  const [id, other] = [freshId(), freshId()];
  const otherOwner = freshId();
  demand((await consume(store, other, until, otherOwner)) === true, "an id that nobody had before is denied");
  for (let round = 0; round < 3; round++) {
    const owner = freshId();
    demand((await consume(store, id, until, owner)) === true, "an id that was released is denied");
    demand((await consume(store, id, until)) === false, "an id is not denied after it was consumed again");
    await store.release(id.slice(), until, owner);
  }
  await store.release(id.slice(), until, freshId());
  await store.release(freshId(), until, freshId());
  demand((await consume(store, other, until)) === false, "to release one id released another one");
  if (!store.attempt) return undefined;
  const numbers = [await attempt(store, other, until)];
  await store.release(other.slice(), until, otherOwner);
  numbers.push(await attempt(store, other, until));
  demand(
    numbers[0] === 1 && numbers[1] === 2,
    `the numbers of tries before and after a release are ${numbers.map(shown)}, not 1 and 2`,
  );
  return undefined;
};
