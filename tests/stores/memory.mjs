// The store in memory, in real time.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { write } from "../runtimes/consumer.mjs";
import { same } from "../runtimes/suite/expect.mjs";
import { freshLinks } from "./links.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { redeeming } from "./redeeming.mjs";

export async function memory({ report, load, folder }) {
  const verifierPackage = load(".");
  const { checkStore } = load("conformance");
  const { createMemoryStore } = verifierPackage;

  await report.run("memory, conformance", async () =>
    ofChecks(
      await checkStore({
        store: createMemoryStore({ capacity: 10_000 }),
        small: createMemoryStore({ capacity: 1000 }),
      }),
      ["errors"],
    ),
  );
  const store = createMemoryStore({ capacity: 10_000 });
  await report.run("memory, redeeming", () => outcomes(redeeming(verifierPackage, freshLinks(), () => store)));
  await report.run("memory, against a map", () => outcomes(againstAMap(createMemoryStore)));
  await report.run("a store that hangs", () => outcomes(hanging(folder)));
}

const HANGING = `
import { createGuard, createVerifier } from "mailroom-verifier";
const [key, token] = process.argv.slice(2);
const store = { consume: () => new Promise(() => {}) };
const { tryRedeem } = createGuard({ verifier: createVerifier({ keys: key }), store, storeTimeout: 60 });
tryRedeem(token, { action: "activate" });
console.log("asked");
`;

function* hanging(folder) {
  yield [
    "a guard that waits for its store keeps no program running",
    async () => {
      write(folder, "hanging.mjs", HANGING);
      const { key, activation } = freshLinks();
      const { stdout } = await promisify(execFile)(process.execPath, ["hanging.mjs", key, activation], {
        cwd: folder,
        timeout: 60_000,
      });
      same(stdout, "asked\n", "what it printed");
    },
  ];
}

/** Random operations at random times give the answers of a map. */
function* againstAMap(createMemoryStore) {
  const CAPACITY = 50;
  for (const seed of [1, 2, 3]) {
    yield [
      `200,000 operations from seed ${seed}`,
      () => {
        const random = generator(seed);
        let time = 1_800_000_000;
        let highest = 0;
        const store = createMemoryStore({ capacity: CAPACITY, clock: () => time });
        const model = new Map();
        for (let turn = 0; turn < 200_000; turn += 1) {
          // The clock also goes back.
          time += random(10) === 0 ? random(20) - 5 : 0;
          const name = random(80);
          const id = new Uint8Array(16).fill(name);
          const until = time + random(40) - 5;
          const entry = () => {
            highest = Math.max(highest, time);
            for (const [other, { until: end }] of model) {
              if (end <= highest) model.delete(other);
            }
            if (until <= highest) throw { reason: "ERR_TOKEN_EXPIRED" };
            if (!model.has(name) && model.size === CAPACITY) throw { reason: "ERR_STORE_FULL" };
            const found = model.get(name) ?? { used: false, tries: 0, until };
            found.until = Math.max(found.until, until);
            model.set(name, found);
            return found;
          };
          const operations = [
            [
              () => store.consume(id, until),
              () => {
                const found = entry();
                const first = !found.used;
                found.used = true;
                return first;
              },
            ],
            [() => store.attempt(id, until), () => ++entry().tries],
            [
              () => store.release(id),
              () => {
                if (model.has(name)) model.get(name).used = false;
              },
            ],
          ];
          const [real, expected] = operations[random(3)].map(answer);
          same(real, expected, `operation ${turn}`);
        }
      },
    ];
  }
}

function answer(operation) {
  try {
    return operation();
  } catch (error) {
    return error.reason;
  }
}

/** Numbers below a bound, the same for the same seed. */
function generator(seed) {
  let state = seed;
  return (bound) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}
