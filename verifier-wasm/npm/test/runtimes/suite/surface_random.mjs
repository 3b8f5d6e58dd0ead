// Calls of the whole surface with random hostile arguments. The same seed gives the same calls.

import { holds } from "./expect.mjs";
import { hostileValues } from "./hostile_values.mjs";
import { callsOf, faultOf, fixtureFor, placesOf } from "./surface.mjs";

const SEED = 20_261_122;
const TOLD = 4;

/** How many calls there are between two checks of what is accepted and refused. */
const UNCHECKED = { accepted: 8, refused: 100 };

/** So many of the values in a list of arguments are hostile. */
const MOST_PLACES = 3;

/** How many are made where nobody asks for another number. */
export const MANY = 100_000;

export function* randomCalls(subject) {
  yield [
    `${subject.calls} with the seed ${SEED}`,
    async () => {
      const random = generator(SEED);
      const one = (list) => list[Math.floor(random() * list.length)];
      const subjects = [...callable(subject)];
      const faults = [];
      for (let call = 0; call < subject.calls; call += 1) {
        const { entry, fixture, values, called, places } = one(subjects);
        // What is right of one place says nothing of it together with another,
        // so the last one counts.
        const chosen = Array.from({ length: 1 + Math.floor(random() * MOST_PLACES) }, () => [
          one(places),
          one(values),
        ]);
        if (chosen.some(([{ path }, [, value]]) => called.recipe.skips?.(path, value))) continue;
        const fault = await severalAtOnce(subject, called, chosen);
        if (fault !== undefined) faults.push(`call ${call}, ${entry} ${called.id}, ${fault}`);
        if (call % UNCHECKED.accepted === 0) await fixture.stillAccepts();
        if (call % UNCHECKED.refused === 0) await fixture.stillRefuses();
      }
      for (const fixture of new Set(subjects.map(({ fixture }) => fixture))) {
        await fixture.stillAccepts();
        await fixture.stillRefuses();
      }
      holds(faults.length === 0, `${faults.length} faults:\n${faults.slice(0, TOLD).join("\n")}`);
    },
  ];
}

/**
 * All that does not take long, each with the places of its arguments and the values of its entry.
 */
function* callable(subject) {
  for (const [entry, api] of Object.entries(subject.entries)) {
    const fixture = fixtureFor(subject, entry);
    const values = hostileValues(fixture.text, fixture.reenter).filter(
      ([what]) => !SLOW.includes(what),
    );
    const functions = subject.listed.filter(
      (item) => item.entry === entry && item.kind !== "value",
    );
    for (const item of functions) {
      for (const called of callsOf(api, fixture, item)) {
        const places = placesOf(called.parameters, called.recipe.args()).filter(
          ({ path }) => !path.endsWith(" later"),
        );
        if (!called.recipe.isSlow && places.length > 0)
          yield { entry, fixture, values, called, places };
      }
    }
  }
}

/** Of a promise that never comes to anything there is no end. */
const SLOW = ["a proxy that answers itself"];

async function severalAtOnce(subject, called, chosen) {
  const what = chosen.map(([{ path }, [name]]) => `${name} as ${path}`).join(" and ");
  const strict = chosen.filter(
    ([{ path }, [name, value]]) => called.recipe.places[path]?.(value, name) === undefined,
  );
  // One value that is to be refused is enough for the call to be refused,
  // unless a later one took its place.
  const place = {
    path: chosen.map(([{ path }]) => path).join(" "),
    put: (args) => chosen.reduce((given, [{ put }, [, value]]) => put(given, value), args),
  };
  const isOverwritten = chosen.length > 1;
  const recipe = {
    ...called.recipe,
    places: strict.length > 0 && !isOverwritten ? {} : { [place.path]: () => "either" },
    throwsAnything: () => chosen.some(([{ path }]) => called.recipe.throwsAnything?.(path)),
  };
  return faultOf(subject, { ...called, recipe }, place, what, undefined);
}

/** Numbers from 0 to 1 of which each follows from the one before (mulberry32). */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
