// The store in DynamoDB, by the client of AWS, on an emulator of its own.

import { once } from "node:events";

import { DynamoDB } from "@aws-sdk/client-dynamodb";
import dynalite from "dynalite";

import { rejection, same } from "../runtimes/suite/expect.mjs";
import { interruptions, threeEffects } from "./interruptions.mjs";
import { freshLinks } from "./links.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { acrossProcesses } from "./processes.mjs";
import { CuttingProxy } from "./proxy.mjs";
import { redeeming } from "./redeeming.mjs";

const TABLE = "used_tokens";
const settings = (port) => ({
  endpoint: `http://127.0.0.1:${port}`,
  region: "eu-central-1",
  // The emulator compares no signature.
  credentials: { accessKeyId: "id", secretAccessKey: "secret" },
});

export async function run({ report, load, folder }) {
  const verifierPackage = load(".");
  const { createDynamoDbStore } = load("stores/dynamodb");
  const subject = { errors: load("errors") };
  const emulator = dynalite({ createTableMs: 0 }).listen(0, "127.0.0.1");
  await once(emulator, "listening");
  const { port } = emulator.address();
  const client = new DynamoDB(settings(port));
  await client.createTable({
    TableName: TABLE,
    AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  });
  const store = (namespace, more) =>
    createDynamoDbStore({ client, table: TABLE, namespace, ...more });
  const away = new DynamoDB({ ...settings(1), maxAttempts: 1 });
  await report.run("DynamoDB, conformance", async () =>
    ofChecks(
      await load("conformance").checkStore({
        store: store("kit"),
        unreachable: store("kit", { client: away }),
      }),
      ["full"],
    ),
  );
  await report.run("DynamoDB, redeeming", () =>
    outcomes(
      redeeming(
        { ...verifierPackage, ...load("handler") },
        freshLinks(),
        () => store("redeeming"),
        40,
      ),
    ),
  );
  await report.run("DynamoDB, items", () =>
    outcomes(items(subject, createDynamoDbStore, client, store)),
  );
  await report.run("DynamoDB, processes", () =>
    outcomes(acrossProcesses(folder, "dynamodb", { client: settings(port), table: TABLE })),
  );
  const proxy = await CuttingProxy.start({ host: "127.0.0.1", port }, (bytes) =>
    bytes.includes("UpdateItem"),
  );
  const interrupted = new DynamoDB(settings(proxy.port));
  const stores = [store("interrupted", { client: interrupted }), store("interrupted")];
  await report.run("DynamoDB, connections that are cut", () =>
    outcomes([
      ...interruptions(verifierPackage, freshLinks, proxy, ...stores),
      ...threeEffects(verifierPackage, freshLinks, proxy, ...stores),
    ]),
  );
  interrupted.destroy();
  await proxy.end();
  for (const one of [client, away]) one.destroy();
  emulator.close();
}

const METHODS = ["consume", "attempt", "release", "withdraw"];

function* items(subject, createDynamoDbStore, client, store) {
  const bytes = (number) => new Uint8Array(16).fill(number);
  const random = () => crypto.getRandomValues(new Uint8Array(16));
  const now = () => Math.floor(Date.now() / 1000);
  const itemOf = async (namespace, id) => {
    const key = { id: { S: `${namespace}/${Buffer.from(id).toString("hex")}` } };
    return (await client.getItem({ TableName: TABLE, Key: key, ConsistentRead: true })).Item;
  };
  const requests = [];
  const counting = {
    updateItem: (input) => requests.push("update") && client.updateItem(input),
    getItem: (input) => requests.push("get") && client.getItem(input),
  };

  yield [
    "each operation is one request, on a new link and on one that was used",
    async () => {
      const counted = store("counted", { client: counting });
      const until = now() + 600;
      for (const owner of [1, 2])
        for (const method of METHODS) await counted[method](bytes(1), until, bytes(owner));
      same(requests.splice(0).join(), Array(8).fill("update").join(), "requests");
      await counted.consume(bytes(1), until - 300, bytes(3));
      same(
        requests.splice(0).join(),
        "update,get,update",
        "requests of one that is to be remembered for less long",
      );
    },
  ];
  yield [
    "an item carries the time for Time to Live in whole seconds, " +
      "which an earlier one does not change",
    async () => {
      const until = now() + 600;
      const timed = store("timed");
      await timed.consume(bytes(1), until + 0.25, bytes(1));
      await timed.attempt(bytes(1), until - 300, bytes(1));
      same((await itemOf("timed", bytes(1))).rememberUntil.N, String(until + 1), "the time");
      await timed.attempt(bytes(1), until + 30, bytes(2));
      same((await itemOf("timed", bytes(1))).rememberUntil.N, String(until + 30), "the later time");
    },
  ];
  yield [
    "an item that is over and not deleted yet is a new one, of which 20 at once use one",
    async () => {
      let time = 1_800_000_000;
      const clocked = store("clocked", { clock: () => time });
      same(await clocked.consume(bytes(1), time + 60, bytes(1)), true, "the first use");
      await clocked.attempt(bytes(1), time + 60, bytes(1));
      time += 61;
      const used = await Promise.all(
        Array.from({ length: 20 }, (_, owner) =>
          clocked.consume(bytes(1), time + 60, bytes(owner)),
        ),
      );
      same(used.filter((first) => first).length, 1, "first uses after its time");
      same(await clocked.attempt(bytes(1), time + 60, bytes(9)), 1, "the first try after its time");
    },
  ];
  yield [
    "what is released or withdrawn when its time is over leaves nothing behind, " +
      "and ends what is remembered for longer",
    async () => {
      const over = store("over");
      for (const method of ["release", "withdraw"])
        await over[method](bytes(6), now() - 10, bytes(1));
      same(await itemOf("over", bytes(6)), undefined, "the item");
      same(await over.consume(bytes(7), now() + 60, bytes(1)), true, "the first use");
      await over.release(bytes(7), now() - 10, bytes(1));
      same(await over.consume(bytes(7), now() + 60, bytes(2)), true, "the use after the release");
    },
  ];
  yield [
    "the history of a link ends at 400 operations: what changes nothing is answered, " +
      "and nothing else works",
    async () => {
      const full = store("full");
      const [id, until] = [random(), now() + 600];
      same(await full.consume(id, until, bytes(1)), true, "the first use");
      for (let number = 0; number < 420; number += 1) {
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
      same((await itemOf("full", id)).history.L.length, 400, "operations that are kept");
    },
  ];
  yield [
    "two namespaces know nothing of each other",
    async () => {
      for (const namespace of ["one", "two"]) {
        same(await store(namespace).consume(bytes(4), now() + 60, bytes(1)), true, namespace);
        same(await store(namespace).attempt(bytes(4), now() + 60, bytes(1)), 1, namespace);
      }
    },
  ];
  yield [
    "a table that is not there is told from a server that is away",
    async () => {
      const missing = store("missing", { table: "no_such_table" });
      for (const method of METHODS) {
        const call = () => missing[method](bytes(1), now() + 60, bytes(1));
        const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", method, call);
        same(error.message, "there is no such table in this Region and account", "the message");
      }
    },
  ];
  yield [
    "an item that nobody of this store has written lets nothing through",
    async () => {
      const rememberUntil = { N: String(now() + 60) };
      for (const item of [
        {},
        { rememberUntil },
        { history: { L: [] } },
        { history: { S: "" }, rememberUntil },
        { history: { L: [{ N: "1" }] }, rememberUntil },
        { history: { L: [{ S: "c" }] }, rememberUntil },
        { history: { L: [] }, rememberUntil: { S: "later" } },
      ]) {
        const id = random();
        const key = { id: { S: `foreign/${Buffer.from(id).toString("hex")}` } };
        await client.putItem({ TableName: TABLE, Item: { ...key, ...item } });
        const answer = await store("foreign")
          .consume(id, now() + 60, bytes(1))
          .catch((error) => error);
        same(answer instanceof Error, true, `an error for ${JSON.stringify(item)}`);
      }
    },
  ];
  yield [
    "a client that answers what is no answer lets nothing through",
    async () => {
      for (const reply of [
        undefined,
        null,
        {},
        "OK",
        { Attributes: null },
        { Attributes: { history: { L: {} } } },
      ]) {
        const answers = store("answers", {
          client: { updateItem: async () => reply, getItem: async () => reply },
        });
        for (const method of METHODS) {
          const call = () => answers[method](bytes(1), now() + 60, bytes(1));
          await rejection(subject, "ERR_STORE_UNAVAILABLE", method, call);
        }
      }
    },
  ];
  const given = { client, table: TABLE, namespace: "mailroom" };
  for (const [name, value] of [
    ["client", undefined],
    ["client", {}],
    ["table", undefined],
    ["table", ""],
    ["table", "two words"],
    ["namespace", "a/b"],
    ["clock", 5],
    ["prefix", "p"],
  ]) {
    yield [
      `the option ${name} is refused as ${JSON.stringify(value)}`,
      () =>
        rejection(subject, "ERR_INVALID_ARGUMENT", "options", async () =>
          createDynamoDbStore({ ...given, [name]: value }),
        ),
    ];
  }
}
