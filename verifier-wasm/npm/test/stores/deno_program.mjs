// What Deno runs: the conformance kit and the guard on Deno KV.
// The links come by the standard input.

import * as verifierPackage from "mailroom-verifier";
import * as handlerEntry from "mailroom-verifier/handler";
import { checkStore } from "mailroom-verifier/conformance";
import * as errors from "mailroom-verifier/errors";
import { createDenoKvStore } from "mailroom-verifier/stores/deno-kv";

import { rejection, same } from "../runtimes/suite/expect.mjs";
import { interruptions, threeEffects } from "./interruptions.mjs";
import { Network } from "./network.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { redeeming } from "./redeeming.mjs";

const [topic] = Deno.args;
const { links, more } = await new Response(Deno.stdin.readable).json();
const kv = await Deno.openKv(`${Deno.cwd()}/${topic}.sqlite`);
const store = (database = kv, namespace = "store", clock = undefined) =>
  createDenoKvStore({ kv: database, namespace, clock });

/** The database, but for what is lost on the way to it. */
const through = (network) => ({
  get: (key) => network.pass(() => kv.get(key)),
  atomic() {
    const transaction = kv.atomic();
    const same = {
      check: (found) => transaction.check(found) && same,
      set: (...given) => transaction.set(...given) && same,
      commit: () => network.pass(() => transaction.commit()),
    };
    return same;
  },
});

const TOPICS = {
  async conformance() {
    const closed = await Deno.openKv(":memory:");
    closed.close();
    return ofChecks(await checkStore({ store: store(), unreachable: store(closed) }), ["full"]);
  },
  redeeming: () =>
    outcomes(redeeming({ ...verifierPackage, ...handlerEntry }, links, () => store(), 1000)),
  entries: () => outcomes(entries()),
  interruptions() {
    const network = new Network();
    const stores = [store(through(network)), store()];
    return outcomes([
      ...interruptions(verifierPackage, () => more.pop(), network, ...stores),
      ...threeEffects(verifierPackage, () => more.pop(), network, ...stores, { resends: true }),
    ]);
  },
};

console.log(JSON.stringify(await TOPICS[topic]()));
kv.close();

function* entries() {
  const subject = { errors };
  const bytes = (number) => new Uint8Array(16).fill(number);
  const now = () => Math.floor(Date.now() / 1000);
  const kept = async (namespace) => {
    const found = [];
    for await (const { key, value } of kv.list({ prefix: ["mailroom", namespace] }))
      found.push({ key, value });
    return found;
  };

  yield [
    "the first operation on a link is one round trip, one on a link that was used two, " +
      "another change three",
    async () => {
      const network = new Network();
      const counted = store(through(network), "counted");
      // The same for all: to remember a link for a second longer is one more change.
      const until = now() + 600;
      const trips = async (method, owner) => {
        network.cut(Number.POSITIVE_INFINITY, "after");
        await counted[method](bytes(1), until, bytes(owner));
        return network.commands;
      };
      same(await trips("consume", 1), 1, "round trips of the first use");
      same(await trips("consume", 2), 2, "round trips of another use");
      same(await trips("attempt", 2), 3, "round trips of a try");
      same(await trips("release", 1), 2, "round trips of a release");
    },
  ];
  yield [
    "operations of two stores at once, as of two processes, are all counted, once",
    async () => {
      const owners = Array.from({ length: 10 }, (_, number) => bytes(number));
      const numbers = await Promise.all(
        owners.map((owner, place) => store(kv, "two").attempt(bytes(place % 2), now() + 60, owner)),
      );
      same(numbers.sort().join(), "1,1,2,2,3,3,4,4,5,5", "numbers");
    },
  ];
  yield [
    "all of a link is in one entry, which is no larger after 1,000 operations than after 200",
    async () => {
      const random = () => crypto.getRandomValues(new Uint8Array(16));
      const one = store(kv, "one");
      for (let number = 0; number < 500; number += 1) {
        await one.attempt(bytes(1), now() + 60, random());
        await one.consume(bytes(1), now() + 60, random());
      }
      const [entry, ...others] = await kept("one");
      same(others.length, 0, "other entries");
      same(entry.value.tries.size, 100, "tries");
      same(entry.value.owners.length, 1, "owners");
    },
  ];
  yield [
    "what is released or withdrawn when its time is over leaves nothing behind, " +
      "and ends what is remembered for longer",
    async () => {
      const over = store(kv, "over");
      for (const method of ["release", "withdraw"])
        await over[method](bytes(6), now() - 10, bytes(1));
      same((await kept("over")).length, 0, "entries");
      same(await over.consume(bytes(7), now() + 60, bytes(1)), true, "the first use");
      await over.release(bytes(7), now() - 10, bytes(1));
      same(await over.consume(bytes(7), now() + 60, bytes(2)), true, "the use after the release");
    },
  ];
  yield [
    "an entry that is over by the clock is a new one, whether the database has deleted it or not",
    async () => {
      let time = 1_800_000_000;
      const clocked = store(kv, "clocked", () => time);
      same(await clocked.consume(bytes(1), time + 60, bytes(1)), true, "the first use");
      time += 61;
      same(await clocked.consume(bytes(1), time + 60, bytes(2)), true, "the use after its time");
    },
  ];
  yield [
    "a link that is valid until the year 9999 can be used once",
    async () => {
      same(await store().consume(bytes(5), 253_402_300_799, bytes(1)), true, "the first use");
      same(await store().consume(bytes(5), 253_402_300_799, bytes(2)), false, "the second use");
    },
  ];
  yield [
    "a database whose commits never succeed denies, and is not asked for ever",
    async () => {
      let commits = 0;
      const transaction = {
        check: () => transaction,
        set: () => transaction,
        commit: async () => ({ ok: !++commits }),
      };
      const busy = store({ get: (key) => kv.get(key), atomic: () => transaction }, "busy");
      await rejection(subject, "ERR_STORE_UNAVAILABLE", "busy", () =>
        busy.consume(bytes(1), now() + 60, bytes(1)),
      );
      same(commits, 20, "commits");
    },
  ];
  for (const options of [
    { kv },
    { kv, namespace: "a/b" },
    { kv: {}, namespace: "mailroom" },
    { namespace: "mailroom" },
    { kv, namespace: "mailroom", prefix: "p" },
    { kv, namespace: "mailroom", clock: 5 },
  ]) {
    yield [
      `the options ${Object.keys(options)} are refused`,
      () =>
        rejection(subject, "ERR_INVALID_ARGUMENT", "options", async () =>
          createDenoKvStore(options),
        ),
    ];
  }
}
