// What Node, Deno and Bun run: prints the results of the suite, or of the topics in the argument,
// as its last line.

import { runInNewContext } from "node:vm";

import { memories } from "./suite/memories.mjs";
import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as handlerEntry from "mailroom-verifier/handler";
import * as publicEntry from "mailroom-verifier/public";
import { heapUsed } from "./heap.mjs";
import { run } from "./suite/index.mjs";
import vectors from "./suite/v1.mjs";

const otherRealm = runInNewContext("globalThis");

const topics = process.argv[2];
const loaded = {
  publicEntry,
  handlerEntry,
  errors,
  vectors,
  memories,
  heapUsed,
  otherRealm,
  topics,
  inWindow: false,
};
const signatures = "platform";

console.log(JSON.stringify(await run({ verifierPackage, ...loaded, signatures })));
