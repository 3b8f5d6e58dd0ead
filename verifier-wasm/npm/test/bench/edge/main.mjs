// What an edge carries: `node main.mjs --tarball=FILE --folder=FOLDER [--json] [--plot=FILE]`.
// FOLDER is made anew.
//
// First, visitors use links, each store of used tokens against its real server: 1, 8 and 64 of them
// at the same time. Then forged links come to the demonstration's Worker, and to the same Worker
// that judges JSON Web Tokens by jose. Stores and Workers take turns, and of each the median is
// told, so that what disturbs a busy machine disturbs all of them.
//
// The store in PostgreSQL finds its server by the variables PGHOST, PGPORT, PGUSER and PGDATABASE.

import { writeFileSync } from "node:fs";

import { prepare } from "../command_line.mjs";
import { median } from "../median.mjs";
import { withForgedLinks } from "./forged.mjs";
import { plot } from "./plot.mjs";
import { withStores } from "./stores.mjs";
import { signLinks, use } from "./visitors.mjs";

const VISITORS = [1, 8, 64];
const ROUNDS = 5;

const { consumer, json, plot: plotted } = prepare({ plot: { type: "string" } });
const links = await signLinks(consumer);
const stores = await withStores(consumer, links.sharedKey, (stores) =>
  measured(stores, async ({ open }, round) => {
    const found = [];
    for (const visitors of VISITORS) {
      found.push(await use(open(`${round}-${visitors}`), links.tokens, visitors));
    }
    return found;
  }),
);
const forged = await withForgedLinks(consumer, (contestants) =>
  measured(contestants, ({ refuse }) => refuse()),
);

const result = {
  visitors: VISITORS,
  stores: stores.map(([{ name }, rounds]) => ({
    name,
    // The median of each figure, for each number of visitors.
    uses: VISITORS.map((_, at) => medians(rounds.map((round) => round[at]))),
  })),
  forged: forged.map(([{ name }, rounds]) => ({ name, ...medians(rounds) })),
};
if (plotted !== undefined) writeFileSync(plotted, plot(result));
if (json) console.log(JSON.stringify(result));
else print(result);

/** What `measure` finds of each contestant, in rounds in which all of them take their turn. */
async function measured(contestants, measure) {
  const found = contestants.map((contestant) => [contestant, []]);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [contestant, rounds] of found) {
      if (!json) console.error(`round ${round + 1} of ${ROUNDS}: ${contestant.name} ...`);
      rounds.push(await measure(contestant, round));
    }
  }
  return found;
}

function medians(rounds) {
  const of = (name) => median(rounds.map((round) => round[name]));
  return Object.fromEntries(Object.keys(rounds[0]).map((name) => [name, of(name)]));
}

function print({ visitors, stores, forged }) {
  const row = (head, cells) => console.log(head.padEnd(34) + cells.map(cell).join(""));
  const cell = (text) => String(text).padStart(11);
  const whole = (number) => Math.round(number).toLocaleString("en");
  const titles = visitors.flatMap((number) => [`${number}: uses/s`, "p50 ms", "p99 ms"]);
  row("store, visitors", titles);
  for (const { name, uses } of stores) {
    const cells = ({ rate, p50, p99 }) => [whole(rate), p50.toFixed(2), p99.toFixed(2)];
    row(name, uses.flatMap(cells));
  }
  console.log();
  row("a Worker's answer", ["a second", "µs of CPU"]);
  for (const { name, rate, microseconds } of forged) {
    row(name, [whole(rate), whole(microseconds)]);
  }
}
