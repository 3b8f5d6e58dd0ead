// Of all who ask for one id, one is the first; other ids have nothing to do with it.

import {
  attempt,
  type Check,
  consume,
  demand,
  demandDone,
  freshId,
  freshOwner,
  later,
  release,
  Skipped,
  shown,
} from "./subject.js";

const ROUNDS = 5;

export const oneWinner: Check = async (subject) => {
  const { store, concurrency } = subject;
  const until = later(subject);
  for (let round = 0; round < ROUNDS; round++) {
    const id = freshId();
    const answers = await Promise.all(
      Array.from({ length: concurrency }, () => consume(store, id, until)),
    );
    const winners = answers.filter((answer) => answer === true).length;
    demand(
      winners === 1,
      `of ${concurrency} who consumed one id at once, ${winners} were told true`,
    );
    const other = answers.find((answer) => typeof answer !== "boolean");
    demand(other === undefined, `consume answered ${shown(other)} instead of true or false`);
    demand(
      (await consume(store, id, until)) === false,
      "an id that was consumed is not denied afterwards",
    );
  }
  return undefined;
};

/**
 * Ids that some way to write bytes as text takes for one: lost case, lost zeros, bytes that are no
 * UTF-8, cut at NUL.
 */
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

export const repeats: Check = async (subject) => {
  const { store, concurrency } = subject;
  const until = later(subject);
  for (let round = 0; round < ROUNDS; round++) {
    const [id, owner] = [freshId(), freshOwner()];
    const many = Array.from({ length: Math.min(concurrency, 20) }, () =>
      consume(store, id, until, owner),
    );
    for (const answer of [...(await Promise.all(many)), await consume(store, id, until, owner)]) {
      demand(answer === true, `a consume that the same owner repeats is answered ${shown(answer)}`);
    }
    demand((await consume(store, id, until)) === false, "another owner is not denied");
    for (let bit = round; bit < 128; bit += 16) {
      const similar = owner.slice();
      similar[bit >> 3] = (similar[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      demand(
        (await consume(store, id, until, similar)) === false,
        "an owner is taken for another one that differs only a little",
      );
    }
  }
  if (!store.attempt) return undefined;
  const id = freshId();
  const owners = [freshOwner(), freshOwner(), freshOwner()];
  for (const [place, owner] of [...owners, ...owners].entries()) {
    const answers = await Promise.all([1, 2, 3].map(() => attempt(store, id, until, owner)));
    const expected = (place % owners.length) + 1;
    const other = answers.find((answer) => answer !== expected);
    demand(
      other === undefined,
      `try ${expected} has the number ${shown(other)} when it is repeated`,
    );
  }
  return undefined;
};

export const releasing: Check = async (subject) => {
  const { store } = subject;
  if (!store.release)
    return new Skipped("the store has no release; what a callback could not do stays used");
  const until = later(subject);
  const [id, other, holder] = [freshId(), freshId(), freshOwner()];
  demand(
    (await consume(store, other, until, holder)) === true,
    "an id that nobody had before is denied",
  );
  const before: Uint8Array[] = [];
  for (let round = 0; round < 3; round++) {
    const owner = freshOwner();
    demand((await consume(store, id, until, owner)) === true, "an id that was released is denied");
    for (const earlier of before) {
      await demandDone("a release that is repeated", release(store, id, until, earlier));
    }
    await demandDone(
      "a release by an owner without the use",
      release(store, id, until, freshOwner()),
    );
    demand(
      (await consume(store, id, until)) === false,
      "a use is ended by the release of another owner, so that a repeated release revives a link",
    );
    await demandDone("release", release(store, id, until, owner));
    before.push(owner);
    for (const released of before) {
      const answer = await consume(store, id, until, released);
      demand(
        answer === false,
        `an owner that was released gets ${shown(answer)} when its consume comes again`,
      );
    }
  }
  demand((await consume(store, id, until)) === true, "an id that was released is denied");

  const [overtaken, late] = [freshId(), freshOwner()];
  await demandDone(
    "a release that comes before its consume",
    release(store, overtaken, until, late),
  );
  const answer = await consume(store, overtaken, until, late);
  demand(answer === false, `a consume that comes after its release is answered ${shown(answer)}`);
  demand(
    (await consume(store, overtaken, until)) === true,
    "after that the id is denied to others",
  );

  demand((await consume(store, other, until)) === false, "to release one id released another one");
  if (!store.attempt) return undefined;
  const numbers = [await attempt(store, other, until)];
  await demandDone("release", release(store, other, until, holder));
  numbers.push(await attempt(store, other, until));
  demand(
    numbers[0] === 1 && numbers[1] === 2,
    `the numbers of tries before and after a release are ${numbers.map(shown)}, not 1 and 2`,
  );
  return undefined;
};

/** How many owners a store remembers of one link. */
export const MOST = 100;

export const bounds: Check = async (subject) => {
  const { store } = subject;
  if (!store.release) return new Skipped("the store has no release");
  const until = later(subject);
  const id = freshId();
  // One that refuses sooner forgets nothing either, but takes a link away from people while an
  // origin is down for a moment.
  const owners = Array.from({ length: MOST - 1 }, freshOwner);
  const released = owners.map((owner) => release(store, id, until, owner));
  await Promise.all(released.map((one) => demandDone(`a release of ${MOST - 1} at once`, one)));
  const last = freshOwner();
  const answer = await consume(store, id, until, last);
  demand(
    answer === true,
    `after ${owners.length} owners were released the next gets ${shown(answer)}`,
  );
  await demandDone(`release ${MOST}`, release(store, id, until, last));
  owners.push(last);
  // Whichever of the two refuses.
  const further = freshOwner();
  const used = await consume(store, id, until, further);
  const refused = used !== true || (await release(store, id, until, further)) !== undefined;
  demand(
    refused,
    `${MOST + 1} owners were released, and none is refused: the store grows forever or forgets`,
  );
  const again = await Promise.all(owners.map((owner) => consume(store, id, until, owner)));
  demand(
    !again.includes(true),
    `released owner number ${again.indexOf(true) + 1} gets true when its consume comes again`,
  );
  return undefined;
};
