// The recipe of `./actions`; see surface_recipes.mjs.

import { holds, same } from "./expect.mjs";

export function fixtureOfActions({ entries }) {
  const { defineActions } = entries["./actions"];
  const definitions = () => ({ invite: { number: 4, path: "/invite", digits: 0 } });
  return {
    text: "invite",
    samples: { FurtherAction: defineActions(definitions()).invite },
    reenter: () => defineActions(definitions()),
    stillAccepts: () => same(defineActions(definitions()).invite.number, 4, "number"),
    stillRefuses() {
      let defined;
      try {
        defined = defineActions({ activate: definitions().invite });
      } catch {
        // As it should.
      }
      holds(defined === undefined, "a name that is taken");
    },
    recipes: {
      // A getter could answer twice.
      ".defineActions": [{ args: () => [definitions()], places: {}, refusesGetters: true }],
    },
  };
}
