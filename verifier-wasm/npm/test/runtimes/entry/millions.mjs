// Millions of verifications (the argument says how many) and a hundred thousand verifiers, where
// the sizes of heap and process can be watched.

import { memories } from "./suite/memories.mjs";
import { createVerifier } from "mailroom-verifier";
import { heapUsed } from "./heap.mjs";
import { altered, pair } from "./suite/tokens.mjs";
import vectors from "./suite/v1.mjs";

const MEGABYTE = 1 << 20;
const MILLIONS = Number(process.argv[2]);
const { activation, recovery } = pair(vectors);
const forged = altered(activation.token);

function verifications(times) {
  const verifier = createVerifier({ keys: activation.key });
  for (let turn = 0; turn < times; turn += 10) {
    for (let genuine = 0; genuine < 8; genuine += 1) {
      verifier.verify(activation.token, { action: "activate" });
    }
    verifier.verifyWithUncountedCode(recovery.token, { action: "recover", code: recovery.code });
    if (verifier.tryVerify(forged, { action: "activate" }).ok) {
      throw new Error("an altered link was accepted");
    }
  }
}

function verifiers(times) {
  for (let turn = 0; turn < times; turn += 1) {
    createVerifier({ keys: [activation.key, recovery.key] }).verify(activation.token, {
      action: "activate",
    });
  }
}

async function size() {
  // A turn of the event loop lets finalizers run, if there were any.
  await new Promise((resolve) => setTimeout(resolve, 10));
  const heap = heapUsed();
  return {
    heap,
    process: process.memoryUsage().rss,
    wasm: memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0),
  };
}

async function leavesNothing(name, work, times) {
  if (!(times > 0)) {
    return { name, error: "nothing was done" };
  }
  work(times / 10);
  const before = await size();
  work(times);
  const after = await size();
  const grown = (what) => (after[what] - before[what]) / MEGABYTE;
  const shown = (what) => `${what} ${grown(what).toFixed(2)}`;
  const said = `${shown("heap")}, ${shown("process")}, module ${grown("wasm")} MB`;
  const leaks =
    grown("heap") > 1 || grown("process") > 32 || grown("wasm") > 0 || memories.length === 0;
  return leaks ? { name, error: `grown: ${said}` } : { name };
}

console.log(
  JSON.stringify([
    await leavesNothing(
      `${MILLIONS} million verifications leave nothing behind`,
      verifications,
      MILLIONS * 1_000_000,
    ),
    await leavesNothing("a hundred thousand verifiers leave nothing behind", verifiers, 100_000),
  ]),
);
