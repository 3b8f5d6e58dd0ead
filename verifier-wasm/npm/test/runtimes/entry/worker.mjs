// What workerd runs: answers any request with the results of the suite.

import { memories } from "./suite/memories.mjs";
import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as handlerEntry from "mailroom-verifier/handler";
import * as publicEntry from "mailroom-verifier/public";
import { run } from "./suite/index.mjs";
import { pair } from "./suite/tokens.mjs";
import vectors from "./suite/v1.mjs";

const { activation } = pair(vectors);
const loaded = { publicEntry, handlerEntry, errors, vectors, memories, inWindow: false };
const verifier = verifierPackage.createVerifier({ keys: activation.key });

export default {
  async fetch(request) {
    const { topics, signatures, ...expected } = Object.fromEntries(
      new URL(request.url).searchParams,
    );
    const results = await run({ verifierPackage, ...loaded, topics, signatures });
    const fromTopLevel = { name: "worker: a verifier made outside of any request verifies in one" };
    if (verifier.verify(activation.token, { action: "activate" }).action !== "activate") {
      fromTopLevel.error = "another action";
    }
    return Response.json([...results, fromTopLevel, ...globals(expected)]);
  },
};

/**
 * Whoever asks may say which kinds of globals this Worker should have, so that no run is another
 * one in disguise.
 */
function globals(expected) {
  return Object.entries(expected).map(([name, wanted]) => {
    const has = typeof globalThis[name];
    return {
      name: `worker: ${name} is ${wanted}`,
      error: has === wanted ? undefined : `it is ${has}`,
    };
  });
}
