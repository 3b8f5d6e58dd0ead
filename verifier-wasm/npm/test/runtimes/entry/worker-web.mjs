// What workerd runs of `./web`.
// The query says how many random tokens are judged.

import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as publicEntry from "mailroom-verifier/public";
import * as webEntry from "mailroom-verifier/web";
import { runWeb } from "./suite/web.mjs";

const loaded = { webEntry, verifierPackage, publicEntry, errors, inWindow: false };

export default {
  async fetch(request) {
    const count = Number(new URL(request.url).searchParams.get("count"));
    return Response.json(await runWeb({ ...loaded, count }));
  },
};
