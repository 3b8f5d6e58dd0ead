// Visitors who use links, each one after the other, and now and then the same link again.

import { createRequire } from "node:module";
import { join } from "node:path";
import { performance } from "node:perf_hooks";

/** More than the fastest store uses in the time of a measurement. */
const LINKS = 60_000;
/** In milliseconds. */
const LASTS = 2_000;
/** After so many links a visitor presses the button once more, which must be refused. */
const AGAIN = 10;

/** Links of v2 and the key that signed them, by the package's own entry for tests. */
export async function signLinks(consumer) {
  const require = createRequire(join(consumer, "package.json"));
  const { createTestLinks } = require("mailroom-verifier/testing");
  const { sharedKey, sign } = await createTestLinks();
  const tokens = [];
  while (tokens.length < LINKS) {
    const signed = Array.from({ length: 500 }, () => sign({ action: "activate" }));
    for (const { token } of await Promise.all(signed)) tokens.push(token);
  }
  return { sharedKey, tokens };
}

/**
 * Lets so many visitors use links for a while.
 *
 * @param {(token: string) => Promise<boolean>} redeem whether the link was let through
 * @returns {Promise<{ rate: number, p50: number, p99: number }>} links that were used in a second,
 * and the median and the 99th percentile of their time, in milliseconds
 */
export async function use(redeem, tokens, visitors) {
  const times = [];
  let next = 0;
  const started = performance.now();
  const visitor = async () => {
    while (next < tokens.length && performance.now() - started < LASTS) {
      const number = next;
      next += 1;
      const pressed = performance.now();
      const isUsed = await redeem(tokens[number]);
      times.push(performance.now() - pressed);
      if (!isUsed) throw new Error("a genuine link was refused");
      if (number % AGAIN === 0 && (await redeem(tokens[number]))) {
        throw new Error("a link was used twice");
      }
    }
  };
  await Promise.all(Array.from({ length: visitors }, visitor));
  const seconds = (performance.now() - started) / 1000;
  times.sort((one, other) => one - other);
  const at = (share) => times[Math.min(times.length - 1, Math.floor(share * times.length))];
  return { rate: times.length / seconds, p50: at(0.5), p99: at(0.99) };
}
