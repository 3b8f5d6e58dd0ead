// How long one verification takes, beside what people use instead:
// `node verify.mjs --tarball=FILE --folder=FOLDER [--json]`. FOLDER is made anew.
//
// All run in turns in one process (the native one in its own), so that a machine that slows down slows all of them.

import { createRequire } from "node:module";
import { join } from "node:path";

import { prepare } from "./command_line.mjs";
import { GENUINE, contestants } from "./contestants.mjs";
import { median } from "./median.mjs";

const ROUNDS = 60;
/** Whole passes through all tokens in a round, so that a round of each takes about the same time. */
const PASSES = { mailroom: 20, node_crypto: 6, webcrypto: 1, jose: 1, native: 20 };

const { consumer, json } = prepare();
const verifierPackage = createRequire(join(consumer, "package.json"))("mailroom-verifier");

const all = await contestants(verifierPackage);
const samples = Object.fromEntries(Object.keys(all).map((name) => [name, []]));
// The first rounds only warm up.
for (let round = -5; round < ROUNDS; round += 1) {
  for (const [name, contestant] of Object.entries(all)) {
    const verifications = PASSES[name] * contestant.tokens.length;
    const { nanoseconds, accepted } = await measure(contestant, PASSES[name], verifications);
    if (accepted !== PASSES[name] * GENUINE) {
      throw new Error(`${name} accepted ${accepted} tokens, not the ${PASSES[name] * GENUINE} genuine ones`);
    }
    if (round >= 0) {
      samples[name].push(nanoseconds / verifications);
    }
  }
  if (!json && round >= 0 && round % 10 === 9) {
    console.error(`round ${round + 1} of ${ROUNDS}`);
  }
}
all.native.end();

const medians = Object.entries(samples).map(([name, times]) => [name, median(times)]);
const ns = Object.fromEntries(medians.map(([name, time]) => [name, round(time)]));
const ratio = Object.fromEntries(
  ["node_crypto", "webcrypto", "jose"].map((name) => [name, round(median(samples[name]) / median(samples.mailroom))]),
);
if (json) {
  console.log(JSON.stringify({ ns, ratio }));
} else {
  console.log(`one verification, median of ${ROUNDS} rounds on Node ${process.versions.node}`);
  for (const [name, time] of Object.entries(ns)) {
    const times = ratio[name] === undefined ? "" : `${ratio[name].toFixed(1)} times as long as mailroom`;
    console.log(`  ${name.padEnd(12)} ${time.toFixed(1).padStart(10)} ns   ${times}`.trimEnd());
  }
}

async function measure({ tokens, count, round }, passes, verifications) {
  if (round !== undefined) {
    return round(verifications);
  }
  let accepted = 0;
  const started = process.hrtime.bigint();
  for (let pass = 0; pass < passes; pass += 1) {
    const result = count(tokens);
    // Only what is asynchronous by nature waits.
    accepted += typeof result === "number" ? result : await result;
  }
  return { nanoseconds: Number(process.hrtime.bigint() - started), accepted };
}

function round(value) {
  return Math.round(value * 10) / 10;
}
