// What workerd runs: the conformance kit and the guard on D1. The links come with the request.

import * as verifierPackage from "mailroom-verifier";
import * as handlerEntry from "mailroom-verifier/handler";
import { checkStore } from "mailroom-verifier/conformance";
import * as errors from "mailroom-verifier/errors";
import { createD1Store, TABLE } from "mailroom-verifier/stores/d1";

import { rejection, same } from "../runtimes/suite/expect.mjs";
import { interruptions, threeEffects } from "./interruptions.mjs";
import { Network } from "./network.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { redeeming } from "./redeeming.mjs";

/** The database, but for what is lost on the way to it. */
const through = (network, database) => ({
  prepare: (query) => database.prepare(query),
  batch: (statements) => network.pass(() => database.batch(statements)),
});

export default {
  async fetch(request, { DB, EMPTY }) {
    const { topic, links, more } = await request.json();
    await DB.exec(TABLE);
    await DB.exec(TABLE);
    const store = (database = DB, namespace = "store") => createD1Store({ database, namespace });
    const topics = {
      conformance: async () =>
        ofChecks(await checkStore({ store: store(), unreachable: store(EMPTY) }), ["full"]),
      redeeming: () =>
        outcomes(redeeming({ ...verifierPackage, ...handlerEntry }, links, () => store(), 1000)),
      rows: () => outcomes(rows(DB, EMPTY, store)),
      interruptions: () => {
        const network = new Network();
        const stores = [store(through(network, DB)), store()];
        return outcomes([
          ...interruptions(verifierPackage, () => more.pop(), network, ...stores),
          ...threeEffects(verifierPackage, () => more.pop(), network, ...stores, { resends: true }),
        ]);
      },
    };
    return Response.json(await topics[topic]());
  },
};

const METHODS = ["consume", "attempt", "release", "withdraw"];

function* rows(DB, EMPTY, store) {
  const subject = { errors };
  const bytes = (number) => new Uint8Array(16).fill(number);
  const random = () => crypto.getRandomValues(new Uint8Array(16));
  const now = () => Math.floor(Date.now() / 1000);
  const run = async (query) => (await DB.prepare(query).all()).results;
  const passTime = () => run("UPDATE mailroom_used_tokens SET remember_until = unixepoch() - 1");

  yield [
    "each operation is one round trip",
    async () => {
      const network = new Network();
      const counted = store(through(network, DB), "counted");
      for (const method of METHODS) await counted[method](bytes(1), now() + 60, bytes(2));
      same(network.commands, METHODS.length, "batches");
    },
  ];
  yield [
    "rows that mean nothing any more are deleted in passing",
    async () => {
      await run("DELETE FROM mailroom_used_tokens");
      for (let number = 0; number < 50; number += 1)
        await store().consume(bytes(number), now() + 60, bytes(1));
      await passTime();
      for (let number = 100; number < 125; number += 1) {
        same(await store().consume(bytes(number), now() + 60, bytes(1)), true, `use ${number}`);
      }
      const [{ count }] = await run("SELECT count(*) AS count FROM mailroom_used_tokens");
      same(count, 25, "rows");
    },
  ];
  yield [
    "a row that is over is a new one, with its tries and its use",
    async () => {
      const over = store(DB, "over");
      await over.attempt(bytes(1), now() + 60, bytes(1));
      await over.consume(bytes(1), now() + 60, bytes(1));
      await passTime();
      same(await over.attempt(bytes(1), now() + 60, bytes(3)), 1, "the first try");
      same(await over.consume(bytes(1), now() + 60, bytes(3)), true, "the first use");
      same(await over.consume(bytes(1), now() + 60, bytes(4)), false, "the second use");
    },
  ];
  yield [
    "what is released when its time is over ends a use that is to be remembered for longer",
    async () => {
      const released = store(DB, "released");
      same(await released.consume(bytes(1), now() + 60, bytes(1)), true, "the first use");
      await released.release(bytes(1), now() - 10, bytes(1));
      same(
        await released.consume(bytes(1), now() + 60, bytes(2)),
        true,
        "the use after the release",
      );
    },
  ];
  yield [
    "the history of a link ends at 400 operations: what changes nothing is answered, " +
      "and nothing else works",
    async () => {
      const full = store(DB, "full");
      const [id, until] = [random(), now() + 600];
      same(await full.consume(id, until, bytes(1)), true, "the first use");
      for (let number = 0; number < 500; number += 1) {
        same(await full.consume(id, until, random()), false, `another use, number ${number}`);
      }
      same(await full.consume(id, until, bytes(1)), true, "the first use, repeated");
      for (const [method, owner] of [
        ["release", bytes(1)],
        ["attempt", random()],
        ["withdraw", random()],
      ]) {
        await rejection(subject, "ERR_STORE_FULL", method, () => full[method](id, until, owner));
      }
      same(await full.consume(id, until, random()), false, "another use");
      const [{ length }] = await run(
        "SELECT max(length(history)) AS length FROM mailroom_used_tokens",
      );
      same(length, 400 * 33, "characters of the history");
    },
  ];
  yield [
    "two namespaces know nothing of each other",
    async () => {
      for (const namespace of ["one", "two", "x' OR '1'='1".replaceAll(/\W/g, "_")]) {
        same(await store(DB, namespace).consume(bytes(4), now() + 60, bytes(1)), true, namespace);
        same(await store(DB, namespace).attempt(bytes(4), now() + 60, bytes(1)), 1, namespace);
      }
    },
  ];
  yield [
    "a database without the table says what to run",
    async () => {
      for (const method of METHODS) {
        const call = () => store(EMPTY)[method](bytes(1), now() + 60, bytes(1));
        const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", method, call);
        same(/run the statements of TABLE/.test(error.message), true, error.message);
      }
    },
  ];
  yield [
    "a history that nobody of this store has written lets nothing through",
    async () => {
      for (const history of [
        "",
        "x",
        "z".repeat(33),
        `c${"0f".repeat(16)}x`,
        `d${"0f".repeat(16)}`,
      ]) {
        const id = random();
        const hex = [...id].map((byte) => byte.toString(16).padStart(2, "0")).join("");
        await DB.prepare(
          "INSERT INTO mailroom_used_tokens VALUES ('store', ?1, unixepoch() + 60, ?2)",
        )
          .bind(hex, history)
          .run();
        const answer = await store()
          .consume(id, now() + 60, bytes(1))
          .catch(({ reason }) => reason);
        same(
          answer,
          history === "" ? true : "ERR_STORE_UNAVAILABLE",
          `the answer after "${history}"`,
        );
      }
    },
  ];
  yield [
    "a database that is full, by the texts that D1 documents, refuses",
    async () => {
      for (const text of [
        "D1_ERROR: database or disk is full: SQLITE_FULL",
        "Exceeded maximum DB size",
      ]) {
        const full = {
          prepare: (query) => DB.prepare(query),
          batch: () => Promise.reject(new Error(text)),
        };
        const call = () => store(full).consume(bytes(1), now() + 60, bytes(1));
        await rejection(subject, "ERR_STORE_FULL", text, call);
      }
    },
  ];
  for (const options of [
    { database: DB },
    { database: DB, namespace: "a b" },
    { database: {}, namespace: "mailroom" },
    { namespace: "mailroom" },
    { database: DB, namespace: "mailroom", table: "t" },
  ]) {
    yield [
      `the options ${Object.keys(options)} are refused`,
      () =>
        rejection(subject, "ERR_INVALID_ARGUMENT", "options", async () => createD1Store(options)),
    ];
  }
}
