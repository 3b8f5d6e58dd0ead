// The suite on `./slim`, whose module Node, Deno and Bun read from its file.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";

import { memories } from "./suite/memories.mjs";
import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as slimEntry from "mailroom-verifier/slim";
import { heapUsed } from "./heap.mjs";
import { run } from "./suite/index.mjs";
import vectors from "./suite/v1.mjs";

const file = fileURLToPath(import.meta.resolve("mailroom-verifier/verifier.wasm"));
const module = new WebAssembly.Module(readFileSync(file));
const otherRealm = runInNewContext("globalThis");
const others = { "mailroom-verifier": verifierPackage };
const topics = process.argv[2];

console.log(
  JSON.stringify(
    await run({
      verifierPackage: slimEntry.instantiate(module),
      ...{
        errors,
        slimEntry,
        module,
        vectors,
        memories,
        heapUsed,
        otherRealm,
        others,
        topics,
        inWindow: false,
      },
    }),
  ),
);
