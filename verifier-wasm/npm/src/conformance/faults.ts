// A store that cannot answer, or has no room, does not consent.

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

/** For how many seconds a store may think about it. A guard waits for less and denies, too. */
const PATIENCE = 30;

export const errors: Check = async (subject) => {
  const { unreachable: store } = subject;
  if (!store) return new Skipped("no store was given as `unreachable`");
  const until = later(subject);
  const used = await inTime(consume(store, freshId(), until));
  demand(used !== true, "a store that cannot be reached lets a token through");
  if (!store.attempt) return undefined;
  const number = await inTime(attempt(store, freshId(), until));
  demand(
    !isOrdinal(number),
    `a store that cannot be reached gives a try the number ${shown(number)}`,
  );
  return undefined;
};

async function inTime(answer: Promise<unknown>): Promise<unknown> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise((resolve) => {
    timer = setTimeout(resolve, PATIENCE * 1000, "silence");
  });
  return Promise.race([answer, silence]).finally(() => clearTimeout(timer));
}

/** How many entries of a full store are asked for again. */
const LOOKED_AT = 1000;

/**
 * How often in a row a full store refuses; one that measures its memory may have room
 * for one more at times.
 */
const REFUSALS = 25;

export const full: Check = async (subject) => {
  const { small: store, smallLimit } = subject;
  if (!store) return new Skipped("no store was given as `small`");
  const until = later(subject);
  const remembered: Uint8Array[] = [];
  let refusals = 0;
  while (refusals < REFUSALS && remembered.length < smallLimit) {
    const id = freshId();
    if ((await consume(store, id, until)) === true) {
      remembered.push(id);
      refusals = 0;
    } else {
      refusals += 1;
    }
  }
  for (const id of remembered.slice(0, LOOKED_AT)) {
    demand(
      (await consume(store, id, until)) !== true,
      `one of ${remembered.length} entries is forgotten too early: its token works again`,
    );
  }
  demand(
    refusals === REFUSALS,
    `after ${smallLimit} entries the store still has room: give a smaller one as \`small\``,
  );
  return undefined;
};
