// What workerd runs: the conformance kit and the guard on Durable Objects.
// The links come with the request.

import { createDurableObjectStore, UsedToken } from "mailroom-verifier/stores/durable-object";
import { checkStore } from "mailroom-verifier/conformance";
import * as verifierPackage from "mailroom-verifier";
import * as handlerEntry from "mailroom-verifier/handler";

import { rejection, same } from "../runtimes/suite/expect.mjs";
import * as errors from "mailroom-verifier/errors";
import { interruptions, threeEffects } from "./interruptions.mjs";
import { Network } from "./network.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { redeeming } from "./redeeming.mjs";

export { UsedToken };

/** An object that cannot answer. */
export class Broken {
  async fetch() {
    throw new Error("the object is broken");
  }
}

/** An object of some other class, to which the binding leads by mistake. */
export class Other {
  async fetch() {
    return new Response("OK");
  }
}

/** An object that can be asked what it keeps. */
export class Watched extends UsedToken {
  #storage;

  constructor(state, env) {
    super(state, env);
    this.#storage = state.storage;
  }

  async fetch(request) {
    if (!request.url.endsWith("/watch")) return super.fetch(request);
    const kept = await this.#storage.list();
    return Response.json({ keys: [...kept.keys()], alarm: await this.#storage.getAlarm() });
  }
}

/** The binding, but for what is lost on the way to the objects. */
const through = (network, binding) => ({
  idFromName: (name) => binding.idFromName(name),
  get: (id) => ({ fetch: (...request) => network.pass(() => binding.get(id).fetch(...request)) }),
});

export default {
  async fetch(request, env) {
    const { topic, run, links, more } = await request.json();
    const store = (binding = env.UsedToken, name = "store") =>
      createDurableObjectStore({ binding, namespace: `${run}-${name}` });
    const topics = {
      conformance: async () =>
        ofChecks(await checkStore({ store: store(), unreachable: store(env.Broken) }), ["full"]),
      redeeming: () =>
        outcomes(redeeming({ ...verifierPackage, ...handlerEntry }, links, () => store())),
      objects: () => outcomes(objects(env, store, run)),
      interruptions: () => {
        const network = new Network();
        const stores = [store(through(network, env.UsedToken)), store()];
        return outcomes([
          ...interruptions(verifierPackage, () => more.pop(), network, ...stores),
          ...threeEffects(verifierPackage, () => more.pop(), network, ...stores, { resends: true }),
        ]);
      },
    };
    return Response.json(await topics[topic]());
  },
};

function* objects(env, store, run) {
  const subject = { errors };
  const id = (number) => new Uint8Array(16).fill(number);
  const owner = id;
  const watch = async (namespace, number) => {
    const name = `${run}-${namespace}/${number.toString(16).padStart(2, "0").repeat(16)}`;
    const object = env.Watched.get(env.Watched.idFromName(name));
    return (await object.fetch("https://object/watch")).json();
  };

  yield [
    "an object forgets by its alarm, and keeps an alarm for what was extended",
    async () => {
      const watched = store(env.Watched, "watched");
      const now = () => Date.now() / 1000;
      let until;
      let [short, extended] = [-1, 0];
      let kept;
      // What takes so long that its time is over says nothing: it is done again, with others.
      do {
        [short, extended] = [short + 2, extended + 2];
        until = Math.floor(now()) + 30;
        await watched.consume(id(short), until, owner(1));
        await watched.consume(id(extended), until, owner(1));
        await watched.attempt(id(extended), until + 600, owner(1));
        kept = await watch("watched", short);
      } while (now() >= until && short < 20);
      same(kept.alarm, until * 1000, "the alarm");
      same(kept.keys.join(), "entry", "what is kept");
      // The runtime may be late by a minute.
      const end = (until + 120) * 1000;
      while ((await watch("watched", short)).keys.length > 0 && Date.now() < end) {
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      same((await watch("watched", short)).keys.length, 0, "what is kept after its time");
      same((await watch("watched", short)).alarm, null, "the alarm after its time");
      const longer = await watch("watched", extended);
      same(longer.keys.join(), "entry", "what is kept of what was extended");
      same(longer.alarm, (until + 600) * 1000, "the alarm of what was extended");
    },
  ];
  yield [
    "two namespaces know nothing of each other",
    async () => {
      for (const namespace of ["one", "two"]) {
        const until = Date.now() / 1000 + 60;
        same(await store(undefined, namespace).consume(id(3), until, owner(1)), true, namespace);
        same(await store(undefined, namespace).attempt(id(3), until, owner(1)), 1, namespace);
      }
    },
  ];
  yield [
    "a link that is valid until the year 9999 can be used, which is later than an alarm can be set",
    async () => {
      const watched = store(env.Watched, "far");
      const lastSecond = 253_402_300_799;
      same(await watched.consume(id(5), lastSecond, owner(1)), true, "the first use");
      same(await watched.consume(id(5), lastSecond, owner(2)), false, "the second use");
      same(await watched.attempt(id(5), lastSecond, owner(1)), 1, "the first try");
      const { alarm } = await watch("far", 5);
      same(alarm > Date.now() && alarm < Date.UTC(2255), true, `the alarm, at ${alarm}`);
    },
  ];
  yield [
    "what is released or withdrawn when its time is over leaves nothing behind",
    async () => {
      const watched = store(env.Watched, "over");
      for (const method of ["release", "withdraw"])
        await watched[method](id(6), Date.now() / 1000 - 10, owner(1));
      same((await watch("over", 6)).keys.length, 0, "what is kept");
    },
  ];
  yield [
    "an object of another class is told from one that is away",
    async () => {
      const other = store(env.Other, "other");
      const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", "another class", () =>
        other.consume(id(7), Date.now() / 1000 + 60, owner(1)),
      );
      const said =
        'the store answered with the string "OK": is the Durable Object of the class UsedToken?';
      same(error.message, said, "the message");
    },
  ];
  yield [
    "the object answers to nothing else",
    async () => {
      const object = env.UsedToken.get(env.UsedToken.idFromName("other"));
      const someone = "0f".repeat(16);
      for (const [path, method, status] of [
        [`consume?until=9999999999&owner=${someone}`, "GET", 405],
        [`consume?owner=${someone}`, "POST", 400],
        [`consume?until=soon&owner=${someone}`, "POST", 400],
        ["consume?until=9999999999", "POST", 400],
        [`consume?until=9999999999&owner=${someone}00`, "POST", 400],
        [`forget?until=9999999999&owner=${someone}`, "POST", 404],
        [`toString?until=9999999999&owner=${someone}`, "POST", 404],
        [`consume?until=1&owner=${someone}`, "POST", 410],
      ]) {
        same(
          (await object.fetch(`https://object/${path}`, { method })).status,
          status,
          `${method} ${path}`,
        );
      }
    },
  ];
  const binding = env.UsedToken;
  for (const options of [
    { binding },
    { binding: {}, namespace: "a" },
    { namespace: "a" },
    { binding, namespace: "/" },
  ]) {
    yield [
      `the options ${Object.keys(options)} are refused`,
      () =>
        rejection(subject, "ERR_INVALID_ARGUMENT", "options", async () =>
          createDurableObjectStore(options),
        ),
    ];
  }
}
