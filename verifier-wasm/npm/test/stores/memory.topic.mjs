// The store in memory, in real time.

import { execFile } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";

import { write } from "../runtimes/consumer.mjs";
import { same } from "../runtimes/suite/expect.mjs";
import { freshLinks } from "./links.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { redeeming } from "./redeeming.mjs";

export async function run({ report, load, folder }) {
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
  await report.run("memory, redeeming", () =>
    outcomes(redeeming({ ...verifierPackage, ...load("handler") }, freshLinks(), () => store)),
  );
  await report.run("memory, against a map", () => outcomes(againstAMap(createMemoryStore)));
  await report.run("a store that hangs", () => outcomes(hanging(folder)));
  await report.run("memory, two threads", () => outcomes(threads(folder)));
}

const HANGING = `
import { createGuard, createVerifier } from "mailroom-verifier";
const [key, token] = process.argv.slice(2);
const never = () => new Promise(() => {});
const store = { consume: never, release: never };
const guard = createGuard({ verifier: createVerifier({ keys: key }), store, storeTimeout: 0.5 });
try {
  await guard.redeem(token, { action: "activate" });
} catch (error) {
  console.log(error.reason, error.message);
}
`;

function* hanging(folder) {
  yield [
    "a script whose store hangs is told so, and does not end in silence",
    async () => {
      write(folder, "hanging.mjs", HANGING);
      const { key, activation } = freshLinks();
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ["hanging.mjs", key, activation],
        {
          cwd: folder,
          timeout: 240_000,
        },
      );
      same(
        stdout,
        "ERR_STORE_UNAVAILABLE the store did not answer within 0.5 s; whether the token " +
          "counts as used is not known\n",
        "what it printed",
      );
    },
  ];
}

const THREAD = `
import { parentPort, workerData } from "node:worker_threads";
import { createGuard, createMemoryStore, createVerifier } from "mailroom-verifier";
const store = createMemoryStore({ capacity: 10 });
const { tryRedeem } = createGuard({ verifier: createVerifier({ keys: workerData.key }), store });
const reasons = [];
for (let time = 0; time < 2; time += 1) {
  const { ok, reason } = await tryRedeem(workerData.activation, { action: "activate" });
  reasons.push(ok ? "ok" : reason);
}
parentPort.postMessage(reasons.join());
`;

/** What the documentation of createMemoryStore says of one thread. */
function* threads(folder) {
  yield [
    "each thread has a store in memory of its own, so a link works once in each",
    async () => {
      write(folder, "thread.mjs", THREAD);
      const workerData = freshLinks();
      const answers = await Promise.all(
        [1, 2].map(async () => {
          const worker = new Worker(join(folder, "thread.mjs"), { workerData });
          const [answer] = await once(worker, "message");
          await worker.terminate();
          return answer;
        }),
      );
      same(answers.join("; "), "ok,ERR_TOKEN_USED; ok,ERR_TOKEN_USED", "answers of the threads");
    },
  ];
}

/** Random operations of a few owners at random times give the answers of maps. */
function* againstAMap(createMemoryStore) {
  const CAPACITY = 50;
  const OPERATIONS = ["consume", "release", "attempt", "withdraw"];
  for (const seed of [1, 2, 3]) {
    yield [
      `200,000 operations from seed ${seed}`,
      () => {
        const random = generator(seed);
        let time = 1_800_000_000;
        const store = createMemoryStore({ capacity: CAPACITY, clock: () => time });
        const model = mapped(CAPACITY);
        for (let turn = 0; turn < 200_000; turn += 1) {
          // The clock also goes back.
          time += random(10) === 0 ? random(20) - 5 : 0;
          const [name, own, operation] = [random(40), random(3), OPERATIONS[random(4)]];
          const until = time + random(40) - 5;
          const [id, owner] = [name, own].map((byte) => new Uint8Array(16).fill(byte));
          const real = answer(() => store[operation](id, until, owner));
          same(
            real,
            answer(() => model(operation, name, own, until, time)),
            `operation ${turn}`,
          );
        }
      },
    ];
  }
}

/** What the store should do, written as plainly as possible: ids to owners to what they did. */
function mapped(capacity) {
  const ids = new Map();
  let highest = 0;
  return (operation, name, own, until, time) => {
    highest = Math.max(highest, time);
    for (const [other, { end }] of ids) {
      if (end <= highest) ids.delete(other);
    }
    const { owners, end } = ids.get(name) ?? { owners: new Map(), end: 0 };
    if (end > 0) ids.set(name, { owners, end: Math.max(end, until) });
    const over = until <= highest;
    const before = owners.get(own);
    const all = [...owners.values()];
    const change = (deeds) => {
      const size = [...ids.values()].reduce((sum, of) => sum + of.owners.size, 0);
      if (!before && size === capacity) throw { reason: "ERR_STORE_FULL" };
      owners.set(own, { ...before, ...deeds });
      ids.set(name, { owners, end: Math.max(end, until) });
    };
    switch (operation) {
      case "consume":
        if (over) throw { reason: "ERR_TOKEN_EXPIRED" };
        if (all.some((deeds) => deeds !== before && deeds.used)) return false;
        change({ used: !before?.released });
        return !before?.released;
      case "release":
        if (before || !over) change({ used: false, released: true });
        return undefined;
      case "attempt": {
        if (over) throw { reason: "ERR_TOKEN_EXPIRED" };
        if (before?.number) return before.number;
        const number = all.filter((deeds) => deeds.number && deeds.number < 101).length + 1;
        change({ number });
        return number;
      }
      default:
        if (before?.number || !over) change({ number: 101 });
        return undefined;
    }
  };
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
