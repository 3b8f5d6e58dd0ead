// How long one verification takes, beside what people use instead:
// `node verify.mjs --tarball=FILE --folder=FOLDER [--json]`. FOLDER is made anew.
//
// All run in turns in one process (the native one in its own), so that a machine that slows down
// slows all of them.

import { createRequire } from "node:module";
import { join } from "node:path";

import { prepare } from "./command_line.mjs";
import { ALTERED_EVERY, contestants } from "./contestants.mjs";
import { median } from "./median.mjs";
import { publicKeys } from "./public_keys.mjs";
import { redeeming } from "./redeeming.mjs";

const ROUNDS = 1000;
/**
 * Verifications in a round: about a millisecond, so that most rounds are not interrupted
 * on a busy machine either.
 */
const VERIFICATIONS = { mailroom: 2048, node_crypto: 512, webcrypto: 32, jose: 16, native: 8192 };

const { consumer, json } = prepare();
const require = createRequire(join(consumer, "package.json"));
const verifierPackage = require("mailroom-verifier");

const all = await contestants(verifierPackage);
const samples = Object.fromEntries(Object.keys(all).map((name) => [name, []]));
// The first rounds only warm up.
for (let number = -200; number < ROUNDS; number += 1) {
  for (const [name, contestant] of Object.entries(all)) {
    const { nanoseconds, accepted, genuine } = await round(contestant, VERIFICATIONS[name]);
    if (accepted !== genuine) {
      throw new Error(`${name} accepted ${accepted} tokens, not the ${genuine} genuine ones`);
    }
    if (number >= 0) {
      samples[name].push(nanoseconds / VERIFICATIONS[name]);
    }
  }
  if (!json && number % 250 === 249) {
    console.error(`round ${number + 1} of ${ROUNDS}`);
  }
}
all.native.end();

const medians = Object.entries(samples).map(([name, times]) => [name, median(times)]);
const ns = Object.fromEntries(medians.map(([name, time]) => [name, rounded(time)]));
const ratio = Object.fromEntries(
  ["node_crypto", "webcrypto", "jose"].map((name) => [
    name,
    rounded(median(samples[name]) / median(samples.mailroom)),
  ]),
);
const { v1, v2, v2_recover, consume, redeem } = await redeeming(verifierPackage);
const ofPublicKeys = await publicKeys(require("mailroom-verifier/public"));
const more = {
  v2_ns: rounded(v2),
  v2_recover_ns: rounded(v2_recover),
  v2_ratio: { activate: hundredths(v2 / v1), recover: hundredths(v2_recover / v1) },
  consume_per_s: Math.round(1e9 / consume),
  redeem_ns: rounded(redeem),
  v3_signatures: ofPublicKeys.signatures,
  ...Object.fromEntries(
    Object.entries(ofPublicKeys.ns).map(([name, time]) => [`${name}_ns`, rounded(time)]),
  ),
};
if (json) {
  console.log(JSON.stringify({ ns, ratio, ...more }));
} else {
  console.log(`one verification, median of ${ROUNDS} rounds on Node ${process.versions.node}`);
  for (const [name, time] of Object.entries(ns)) {
    const times =
      ratio[name] === undefined ? "" : `${ratio[name].toFixed(1)} times as long as mailroom`;
    console.log(`  ${name.padEnd(12)} ${time.toFixed(1).padStart(10)} ns   ${times}`.trimEnd());
  }
  const line = (what, ns, note = "") =>
    console.log(`  ${what.padEnd(12)} ${ns.toFixed(1).padStart(10)} ns   ${note}`.trimEnd());
  line("v2", v2, `${more.v2_ratio.activate} times as long as v1`);
  line("v2, code", v2_recover, `${more.v2_ratio.recover} times as long as v1`);
  line("consume", consume, `${more.consume_per_s.toLocaleString("en")} a second in memory`);
  line("redeem", redeem, "verify, consume in memory, answer");
  line("v3", ofPublicKeys.ns.v3, `signatures by the ${ofPublicKeys.signatures}`);
  line("  module", ofPublicKeys.ns.v3_webassembly, 'with signatures: "webassembly"');
  line("  node:crypto", ofPublicKeys.ns.v3_node_crypto, "the signature alone");
  line("  jose", ofPublicKeys.ns.v3_jose, "EdDSA");
}

function hundredths(value) {
  return Math.round(value * 100) / 100;
}

/** Every contestant takes all tokens in turns, over the rounds as well. */
async function round(contestant, verifications) {
  if (contestant.round !== undefined) {
    return {
      ...(await contestant.round(verifications)),
      genuine: verifications - verifications / ALTERED_EVERY,
    };
  }
  const { tokens, count } = contestant;
  const batch = tokens.splice(0, Math.min(verifications, tokens.length));
  tokens.push(...batch);
  const passes = verifications / batch.length;
  const texts = batch.map(({ text }) => text);
  const genuine = passes * batch.filter(({ forged }) => !forged).length;
  let accepted = 0;
  const started = process.hrtime.bigint();
  for (let done = 0; done < verifications; done += texts.length) {
    const result = count(texts);
    // Only what is asynchronous by nature waits.
    accepted += typeof result === "number" ? result : await result;
  }
  return { nanoseconds: Number(process.hrtime.bigint() - started), accepted, genuine };
}

function rounded(value) {
  return Math.round(value * 10) / 10;
}
