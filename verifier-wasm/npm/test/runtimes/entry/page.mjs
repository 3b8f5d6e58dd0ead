// What a page in a browser runs: leaves the results of the suite where the test looks for them.

import { memories } from "./suite/memories.mjs";
import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as publicEntry from "mailroom-verifier/public";
import { run } from "./suite/index.mjs";
import vectors from "./suite/v1.mjs";

const frame = document.body.appendChild(document.createElement("iframe"));

const topics = new URL(location.href).searchParams.get("topics") ?? undefined;
const loaded = {
  publicEntry,
  errors,
  vectors,
  memories,
  otherRealm: frame.contentWindow,
  topics,
  signatures: "webassembly",
  inWindow: true,
};

run({ verifierPackage, ...loaded }).then(
  (results) => (globalThis.results = results),
  (error) => (globalThis.results = [{ name: "the suite", error: String(error?.stack ?? error) }]),
);
