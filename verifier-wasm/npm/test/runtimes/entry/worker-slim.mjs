// The suite on `./slim` in workerd, which imports the module as one.

import { memories } from "./suite/memories.mjs";
import module from "mailroom-verifier/verifier.wasm";
import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as slimEntry from "mailroom-verifier/slim";
import { run } from "./suite/index.mjs";
import vectors from "./suite/v1.mjs";

const others = { "mailroom-verifier": verifierPackage };

export default {
  async fetch(request) {
    const slim = slimEntry.instantiate(module);
    const topics = new URL(request.url).searchParams.get("topics") ?? undefined;
    const loaded = {
      errors,
      slimEntry,
      module,
      vectors,
      memories,
      others,
      topics,
      inWindow: false,
    };
    return Response.json(await run({ verifierPackage: slim, ...loaded }));
  },
};
