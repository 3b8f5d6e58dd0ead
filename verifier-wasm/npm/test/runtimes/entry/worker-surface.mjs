// The whole surface with hostile arguments, in workerd.

import module from "mailroom-verifier/verifier.wasm";
import publicModule from "mailroom-verifier/public.wasm";
import entries from "./entries.mjs";
import { runSurface } from "./suite/surface_run.mjs";

export default {
  async fetch() {
    return Response.json(await runSurface({ entries, module, publicModule, inWindow: false }));
  },
};
