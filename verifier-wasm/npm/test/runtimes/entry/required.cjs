// The same with `require`, as programs do that are no modules.

async function main() {
  const { memories } = await import("./suite/memories.mjs");
  const verifierPackage = require("mailroom-verifier");
  const publicEntry = require("mailroom-verifier/public");
  const errors = require("mailroom-verifier/errors");
  const { heapUsed } = await import("./heap.mjs");
  const { run } = await import("./suite/index.mjs");
  const { default: vectors } = await import("./suite/v1.mjs");
  const others = {
    "the imported package": await import("mailroom-verifier"),
    "the imported ./errors": await import("mailroom-verifier/errors"),
  };
  const loaded = {
    publicEntry,
    errors,
    vectors,
    memories,
    heapUsed,
    others,
    topics: process.argv[2],
    inWindow: false,
  };
  console.log(JSON.stringify(await run({ verifierPackage, ...loaded })));
}

main();
