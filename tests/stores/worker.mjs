// What workerd runs: the conformance kit and the guard on Durable Objects. The links come with the request.

import { createDurableObjectStore, UsedToken } from "mailroom-verifier/stores/durable-object";
import { checkStore } from "mailroom-verifier/conformance";
import * as verifierPackage from "mailroom-verifier";

import { rejection, same } from "../runtimes/suite/expect.mjs";
import * as errors from "mailroom-verifier/errors";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { redeeming } from "./redeeming.mjs";

export { UsedToken };

/** An object that cannot answer. */
export class Broken {
  async fetch() {
    throw new Error("the object is broken");
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

export default {
  async fetch(request, env) {
    const { topic, run, links } = await request.json();
    const store = (binding = env.UsedToken, name = "store") =>
      createDurableObjectStore({ binding, namespace: `${run}-${name}` });
    const topics = {
      conformance: async () => ofChecks(await checkStore({ store: store(), unreachable: store(env.Broken) }), ["full"]),
      redeeming: () => outcomes(redeeming(verifierPackage, links, () => store())),
      objects: () => outcomes(objects(env, store, run)),
    };
    return Response.json(await topics[topic]());
  },
};

function* objects(env, store, run) {
  const subject = { errors };
  const id = (number) => new Uint8Array(16).fill(number);
  const watch = async (namespace, number) => {
    const name = `${run}-${namespace}/${number.toString(16).padStart(2, "0").repeat(16)}`;
    const object = env.Watched.get(env.Watched.idFromName(name));
    return (await object.fetch("https://object/watch")).json();
  };

  yield [
    "an object forgets by its alarm, and keeps an alarm for what was extended",
    async () => {
      const watched = store(env.Watched, "watched");
      const until = Math.floor(Date.now() / 1000) + 3;
      await watched.consume(id(1), until);
      await watched.consume(id(2), until);
      await watched.attempt(id(2), until + 600);
      same((await watch("watched", 1)).alarm, until * 1000, "the alarm");
      same((await watch("watched", 1)).keys.join(), "entry", "what is kept");
      await new Promise((resolve) => setTimeout(resolve, 5000));
      same((await watch("watched", 1)).keys.length, 0, "what is kept after its time");
      same((await watch("watched", 1)).alarm, null, "the alarm after its time");
      same((await watch("watched", 2)).keys.join(), "entry", "what is kept of what was extended");
      same((await watch("watched", 2)).alarm, (until + 600) * 1000, "the alarm of what was extended");
    },
  ];
  yield [
    "two namespaces know nothing of each other",
    async () => {
      for (const namespace of ["one", "two"]) {
        const until = Date.now() / 1000 + 60;
        same(await store(undefined, namespace).consume(id(3), until), true, namespace);
        same(await store(undefined, namespace).attempt(id(3), until), 1, namespace);
      }
    },
  ];
  yield [
    "the object answers to nothing else",
    async () => {
      const object = env.UsedToken.get(env.UsedToken.idFromName("other"));
      for (const [path, method, status] of [
        ["consume?until=9999999999", "GET", 405],
        ["consume", "POST", 400],
        ["consume?until=soon", "POST", 400],
        ["forget?until=9999999999", "POST", 404],
        ["consume?until=1", "POST", 410],
      ]) {
        same((await object.fetch(`https://object/${path}`, { method })).status, status, `${method} ${path}`);
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
      () => rejection(subject, "ERR_INVALID_ARGUMENT", "options", async () => createDurableObjectStore(options)),
    ];
  }
}
