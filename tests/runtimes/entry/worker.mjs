// What workerd runs: answers any request with the results of the suite.

import { memories } from "./suite/memories.mjs";
import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as publicEntry from "mailroom-verifier/public";
import { run } from "./suite/index.mjs";
import { pair } from "./suite/tokens.mjs";
import vectors from "./suite/v1.mjs";

const { activation } = pair(vectors);
const verifier = verifierPackage.createVerifier({ keys: activation.key });

export default {
  async fetch(request) {
    const results = await run({ verifierPackage, publicEntry, errors, vectors, memories, inWindow: false });
    const fromTopLevel = { name: "worker: a verifier made outside of any request verifies in one" };
    if (verifier.verify(activation.token, { action: "activate" }).action !== "activate") {
      fromTopLevel.error = "another action";
    }
    return Response.json([...results, fromTopLevel, finalizers(request.url)]);
  },
};

/** Whoever asks may say whether this Worker is one of those that have FinalizationRegistry. */
function finalizers(url) {
  const has = typeof globalThis.FinalizationRegistry;
  const expected = new URL(url).searchParams.get("finalizers") ?? has;
  const result = { name: `worker: FinalizationRegistry is ${expected}` };
  return has === expected ? result : { ...result, error: `it is ${has}` };
}
