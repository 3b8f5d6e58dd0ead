// The recipes of the stores, of what tests them, and of the errors; see surface_recipes.mjs.

import {
  EITHER,
  USELESS,
  anything,
  functions,
  isBytes,
  isFunction,
  optional,
  when,
} from "./surface_recipes.mjs";
import { v2Pair } from "./tokens.mjs";

const NAMESPACE = /^[\w.-]{1,64}$/;

/** It has whatever method it is asked for. */
const isSelfAnswering = when((_, what) => what === "a proxy that answers itself", USELESS);

const KINDS = {
  "./stores/redis": redis,
  "./stores/postgres": postgres,
  "./stores/durable-object": durableObject,
  "./stores/upstash": upstash,
  "./stores/d1": d1,
  "./stores/deno-kv": denoKv,
  "./stores/dynamodb": dynamodb,
};

export function fixtureOfStore(subject, entry) {
  const api = subject.entries[entry];
  const kind = KINDS[entry] ?? ofClient;
  const { name, options, places, skips, more = () => ({}), samples = {} } = kind(api);
  const until = () => Date.now() / 1000 + 1000;
  const bytes = () => new Uint8Array(16).fill(7);
  const using = {
    args: () => [bytes(), until(), bytes()],
    places: {
      id: when(isBytes, EITHER),
      owner: when(isBytes, EITHER),
      rememberUntil: when((value) => typeof value === "number", EITHER),
    },
  };
  return {
    text: "mailroom\n",
    samples: { Required: api[name](options()), ...samples },
    recipes: {
      [`.${name}`]: [
        {
          args: () => [options()],
          places: {
            ...places,
            "options.namespace": when(
              (value) => typeof value === "string" && NAMESPACE.test(value),
            ),
            "options.clock": optional(functions),
            "options.clock()": anything,
          },
          // A guard answers for what a store throws, and for how long it is waited for.
          letsThrough: async (store) => (await redeem(subject, store)).ok,
          makes: true,
          skips,
        },
      ],
      ...Object.fromEntries(
        ["consume", "attempt", "release", "withdraw"].map((method) => [
          `Required.${method}`,
          [using],
        ]),
      ),
      ...more(),
    },
    reenter() {},
    stillAccepts() {},
    stillRefuses() {},
  };
}

function redeem({ entries, vectors2, options }, store) {
  const { activation } = v2Pair(vectors2);
  const verifier = entries["."].createVerifier({
    keys: activation.key,
    clock: () => activation.now,
    ...options,
  });
  const guard = entries["."].createGuard({
    verifier,
    store: { consume: store.consume },
    storeTimeout: 0.05,
  });
  return guard.tryRedeem(activation.token, { action: "activate" });
}

/** A store that takes any client, which it asks for nothing until it is used. */
function ofClient(api) {
  const [name] = Object.keys(api);
  return {
    name,
    options: () => ({ client: {}, namespace: "mailroom" }),
    places: { "options.client": anything },
  };
}

function redis() {
  const client = {
    sendCommand: async ([command]) => (command === "INFO" ? "maxmemory_policy:noeviction" : 1),
  };
  return {
    name: "createRedisStore",
    options: () => ({ client: { ...client }, namespace: "mailroom" }),
    places: {
      "options.client": when((value) => isFunction(value), USELESS),
      "options.client.sendCommand": functions,
      "options.client.sendCommand()": when(() => true, USELESS),
      "options.client.call": optional(when(isFunction, USELESS)),
      "options.client.nodes": anything,
      "options.client.nodes()": anything,
      "options.client.masters": anything,
      "options.client.nodeClient": optional(when(isFunction, USELESS)),
      "options.client.nodeClient()": when(() => true, USELESS),
      "options.client.call()": when(() => true, USELESS),
    },
  };
}

function postgres() {
  const client = { query: async () => ({ rows: [{ first: true, number: 1 }] }) };
  return {
    name: "createPostgresStore",
    options: () => ({ client: { ...client }, namespace: "mailroom" }),
    places: {
      "options.client": when((value) => isFunction(value), USELESS),
      "options.client.query": functions,
      "options.client.query()": when(() => true, USELESS),
      "options.client.unsafe": optional(when(isFunction, USELESS)),
      "options.client.unsafe()": when(() => true, USELESS),
    },
  };
}

function upstash() {
  const policy = { result: "maxmemory_policy:noeviction" };
  const reply = ([command]) => (command === "INFO" ? policy : { result: 1 });
  const fetch = async (_, { body }) => ({
    status: 200,
    text: async () => JSON.stringify(JSON.parse(body).map(reply)),
  });
  // Taken where the option is left out: no network is asked.
  globalThis.fetch = fetch;
  return {
    name: "createUpstashStore",
    options: () => ({ url: "http://127.0.0.1:1", token: "token", namespace: "mailroom", fetch }),
    places: {
      "options.url": when(
        (value) => typeof value === "string" && /^https:\/\/[^@?#]*$/.test(value),
        EITHER,
      ),
      "options.token": when(
        (value) => typeof value === "string" && /^[\x21-\x7e]{1,1024}$/.test(value),
      ),
      "options.fetch": when((value) => value === undefined || isFunction(value), EITHER),
      "options.fetch()": when(() => true, USELESS),
    },
    samples: { HttpResponse: new Response("true") },
    more: () => ({
      "HttpResponse.text": [{ on: () => new Response("true"), args: () => [], places: {} }],
    }),
  };
}

function d1() {
  const statement = { bind: (...values) => ({ event: values[3] }) };
  const database = {
    prepare: () => statement,
    batch: async ([{ event }]) => [{ results: [{ history: event }] }],
  };
  return {
    name: "createD1Store",
    options: () => ({ database: { ...database }, namespace: "mailroom" }),
    places: {
      "options.database": isSelfAnswering,
      "options.database.prepare": functions,
      "options.database.prepare()": anything,
      "options.database.batch": functions,
      "options.database.batch()": when(() => true, USELESS),
    },
  };
}

function denoKv() {
  const transaction = {
    check: () => transaction,
    set: () => transaction,
    commit: async () => ({ ok: true }),
  };
  const kv = {
    get: async (key) => ({ key, value: null, versionstamp: null }),
    atomic: () => transaction,
  };
  return {
    name: "createDenoKvStore",
    options: () => ({ kv: { ...kv }, namespace: "mailroom" }),
    places: {
      "options.kv": isSelfAnswering,
      "options.kv.get": functions,
      "options.kv.get()": anything,
      "options.kv.atomic": functions,
      "options.kv.atomic()": when(() => true, USELESS),
    },
  };
}

function dynamodb() {
  const client = {
    updateItem: async ({ ExpressionAttributeValues: values }) => ({
      Attributes: { history: values[":event"], rememberUntil: values[":until"] },
    }),
    getItem: async () => ({}),
  };
  return {
    name: "createDynamoDbStore",
    options: () => ({ client: { ...client }, table: "used_tokens", namespace: "mailroom" }),
    places: {
      "options.client": isSelfAnswering,
      "options.client.updateItem": functions,
      "options.client.updateItem()": when(() => true, USELESS),
      "options.client.getItem": functions,
      "options.client.getItem()": anything,
      "options.table": when(
        (value) => typeof value === "string" && /^[\w.:/-]{1,1024}$/.test(value),
      ),
    },
  };
}

function durableObject({ UsedToken }) {
  const fresh = () => new UsedToken({ storage: storage() });
  const binding = () => {
    const object = fresh();
    return {
      idFromName: (name) => name,
      get: () => ({ fetch: (url, init) => object.fetch(new Request(url, init)) }),
    };
  };
  const owner = "07".repeat(16);
  const url = () => `https://used-token/consume?until=${Date.now() / 1000 + 1000}&owner=${owner}`;
  // Its only client is the store, and it has no errors of the package's to throw:
  // it must only not consent.
  const consents = async (response) => response.ok && (await response.text()) === "true";
  return {
    name: "createDurableObjectStore",
    options: () => ({ binding: binding(), namespace: "mailroom" }),
    places: {
      "options.binding": isSelfAnswering,
      "options.binding.idFromName": functions,
      "options.binding.idFromName()": anything,
      "options.binding.get": when(isFunction, USELESS),
      "options.binding.get()": when(() => true, USELESS),
    },
    // Its method fetch asks the network.
    skips: (_, value) => value === globalThis,
    samples: {
      UsedToken: fresh(),
      ObjectResponse: new Response("true"),
    },
    more: () => ({
      ".UsedToken": [
        {
          args: () => [{ storage: storage() }],
          places: { state: isEndless, "state.storage": isEndless },
          letsThrough: async (object) =>
            consents(await object.fetch(new Request(url(), { method: "POST" }))),
          throwsAnything: () => true,
        },
      ],
      "UsedToken.fetch": [
        {
          on: fresh,
          args: () => [{ method: "POST", url: url() }],
          places: {},
          letsThrough: consents,
          throwsAnything: () => true,
        },
      ],
      "UsedToken.alarm": [{ args: () => [], places: {} }],
      "ObjectResponse.text": [{ on: () => new Response("true"), args: () => [], places: {} }],
    }),
  };
}

/** A storage that never answers. */
const isEndless = when((_, what) => what === "a proxy that answers itself", EITHER);

function storage() {
  const kept = new Map();
  let alarm = null;
  return {
    get: async (key) => structuredClone(kept.get(key)),
    put: async (key, entry) => void kept.set(key, structuredClone(entry)),
    deleteAll: async () => kept.clear(),
    getAlarm: async () => alarm,
    setAlarm: async (time) => {
      alarm = time;
    },
  };
}

/** What tests stores: of no other than a good one it says that it passes. */
export function fixtureOfConformance({ entries }) {
  let now = 1_800_000_000;
  const clock = () => now;
  // Those who sleep side by side wake at their own times.
  const sleep = async (seconds) => {
    const end = now + seconds;
    await undefined;
    now = Math.max(now, end);
  };
  const store = () => entries["."].createMemoryStore({ capacity: 500, clock });
  const subject = () => ({ ...store() });
  const any = when(() => true, EITHER);
  return {
    text: "store",
    samples: {
      ConformanceReport: { passed: true, checks: [] },
      CheckResult: { name: "ids", verdict: "passed", reason: undefined },
    },
    recipes: {
      ".checkStore": [
        {
          args: () => [{ store: subject(), clock, sleep, concurrency: 2, smallLimit: 2 }],
          places: {
            ...Object.fromEntries(
              ["store", "unreachable", "small"].flatMap((name) => [
                [
                  `options.${name}`,
                  name === "store"
                    ? when((_, what) => what === "a proxy that answers itself", USELESS)
                    : any,
                ],
                ...["consume", "attempt", "release", "withdraw"].flatMap((method) => [
                  [`options.${name}.${method}`, any],
                  [`options.${name}.${method}()`, any],
                ]),
              ]),
            ),
            "options.store.consume": functions,
            "options.store.consume()": when(() => true, USELESS),
            "options.smallLimit": any,
            "options.concurrency": optional(when(Number.isSafeInteger, EITHER)),
            "options.clock": optional(functions),
            "options.clock()": anything,
            "options.sleep": (value) =>
              value === undefined || isFunction(value) ? EITHER : undefined,
            "options.sleep()": anything,
          },
          // The checks side by side share one clock here, so this one stands for them.
          letsThrough: ({ checks }) =>
            checks.find(({ name }) => name === "one-winner").verdict === "passed",
          makes: true,
          isSlow: true,
          // Each is asked for at once, or takes its time by the machine's clock.
          skips: (path, value) =>
            (path === "options.concurrency" && typeof value === "number" && value > 300) ||
            (/sleep|clock/.test(path) && /\(|undefined/.test(`${path} ${typeof value}`)),
        },
      ],
    },
    reenter() {},
    stillAccepts() {},
    stillRefuses() {},
  };
}

/** Made by stores of one's own, too. */
export function fixtureOfErrors({ entries }) {
  const classes = Object.entries(entries["./errors"]).filter(
    ([, { prototype }]) => prototype instanceof Error,
  );
  return {
    text: "for a reason",
    samples: Object.fromEntries(
      classes.map(([name, Denial]) => [name, new Denial("for a reason")]),
    ),
    recipes: {
      ".explain": [
        {
          args: () => [{ ok: false, reason: "ERR_KEY_INVALID", message: "wrong: keys" }],
          places: {
            "failure.message": when((value) => typeof value === "string"),
            "failure.reason": when(
              (value) => typeof value === "string" && /^ERR_[A-Z_\d]{3,40}$/.test(value),
            ),
          },
        },
      ],
      ".errorOf": [
        {
          args: () => [
            { ok: false, reason: "ERR_TOKEN_USED", kind: "visitor", message: "for a reason" },
          ],
          places: { "refusal.message": when((value) => typeof value === "string") },
        },
      ],
      ...Object.fromEntries(
        classes.map(([name]) => [
          `.${name}`,
          // As of any Error: a message that cannot be converted throws what it likes.
          [
            {
              args: () => ["for a reason", { cause: new Error("below") }],
              places: { message: anything, options: anything, "options.cause": anything },
              throwsAnything: () => true,
            },
          ],
        ]),
      ),
    },
    reenter() {},
    stillAccepts() {},
    stillRefuses() {},
  };
}
