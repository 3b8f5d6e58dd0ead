// What workerd runs: a guard on each store that a Worker has, asked by
// `POST /STORE/NAMESPACE/TOKEN`.

import { createGuard, createMemoryStore, createVerifier } from "mailroom-verifier";
import { createD1Store, TABLE } from "mailroom-verifier/stores/d1";
import { createDurableObjectStore } from "mailroom-verifier/stores/durable-object";

export { UsedToken } from "mailroom-verifier/stores/durable-object";

const STORES = {
  memory: () => createMemoryStore({ capacity: 100_000 }),
  d1: ({ DB }, namespace) => createD1Store({ database: DB, namespace }),
  objects: ({ UsedToken }, namespace) =>
    createDurableObjectStore({ binding: UsedToken, namespace }),
};

// Written there by the bundler.
const verifier = createVerifier({ keys: SHARED_KEY });
let guards = new Map();

export default {
  async fetch(request, env) {
    const [, store, namespace, token] = new URL(request.url).pathname.split("/");
    if (store === "table") {
      await env.DB.exec(TABLE);
      return new Response("made");
    }
    const name = `${store}/${namespace}`;
    if (!guards.has(name)) {
      // What was measured before is done.
      guards = new Map([[name, createGuard({ verifier, store: STORES[store](env, namespace) })]]);
    }
    const { ok, reason } = await guards.get(name).tryRedeem(token, { action: "activate" });
    if (!ok && reason !== "ERR_TOKEN_USED") return new Response(reason, { status: 500 });
    return new Response(ok ? "used" : "refused");
  },
};
