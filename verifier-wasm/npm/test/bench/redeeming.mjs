// What v2, the store in memory and the guard take, beside a v1 activation of the same package, in
// turns in one process.

import { createHmac, randomBytes } from "node:crypto";

import { sign } from "../stores/links.mjs";
import { median } from "./median.mjs";

/**
 * In a round: about a millisecond of the slowest, so that most rounds are not interrupted
 * on a busy machine either.
 */
const LINKS = 256;
const ROUNDS = 1000;
const WARM_UP = 200;
const CODE = "04711";
const ID_LENGTH = 16;

/** Nanoseconds for one of each, by name. */
export async function redeeming({ createVerifier, createGuard, createMemoryStore }) {
  const key = randomBytes(32);
  const secrets = Array.from({ length: LINKS }, () => randomBytes(32));
  const v1 = secrets.map((secret) => {
    const tag = createHmac("sha256", key).update("/activate").update(secret).digest();
    return Buffer.concat([secret, tag]).toString("base64url");
  });
  const activations = secrets.map((secret) => sign(key, 1, secret));
  const recoveries = secrets.map((secret) => sign(key, 2, secret, CODE));
  const verifier = createVerifier({ keys: key.toString("hex") });
  const until = Math.floor(Date.now() / 1000) + 3600;
  // As many entries as all rounds make.
  const capacity = (ROUNDS + WARM_UP) * LINKS;
  const consumed = createMemoryStore({ capacity });
  const ids = randomBytes(capacity * ID_LENGTH);
  const owner = randomBytes(ID_LENGTH);
  let next = 0;

  const judge = (tryVerify, links, expected) => () => {
    for (const link of links) {
      demand(tryVerify(link, expected).ok);
    }
  };
  const { tryVerify, tryVerifyWithUncountedCode } = verifier;
  const contestants = {
    v1: judge(tryVerify, v1, { action: "activate" }),
    v2: judge(tryVerify, activations, { action: "activate" }),
    v2_recover: judge(tryVerifyWithUncountedCode, recoveries, { action: "recover", code: CODE }),
    consume() {
      for (const end = next + LINKS * ID_LENGTH; next < end; next += ID_LENGTH) {
        demand(consumed.consume(ids.subarray(next, next + ID_LENGTH), until, owner));
      }
    },
    async redeem() {
      const { tryRedeem } = createGuard({
        verifier,
        store: createMemoryStore({ capacity: LINKS }),
      });
      for (const link of activations) {
        demand((await tryRedeem(link, { action: "activate" })).ok);
      }
    },
  };
  const samples = Object.fromEntries(Object.keys(contestants).map((name) => [name, []]));
  for (let turn = 0; turn < ROUNDS + WARM_UP; turn += 1) {
    for (const [name, run] of Object.entries(contestants)) {
      const started = process.hrtime.bigint();
      await run();
      const nanoseconds = Number(process.hrtime.bigint() - started) / LINKS;
      if (turn >= WARM_UP) {
        samples[name].push(nanoseconds);
      }
    }
  }
  return Object.fromEntries(Object.entries(samples).map(([name, times]) => [name, median(times)]));
}

function demand(accepted) {
  if (accepted !== true) {
    throw new Error("something genuine was refused");
  }
}
