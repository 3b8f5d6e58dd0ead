// Results as the report takes them.

import { PATIENCE, within } from "../waiting.mjs";

/**
 * How long one test may take, in milliseconds. Some meet a client that waits for an answer which was
 * cut off, and whose patience is what they test.
 */
const LONGEST_TEST = 3 * PATIENCE;

/** Runs tests one after the other: pairs of a name and what has to go well. */
export async function outcomes(tests) {
  const results = [];
  for await (const [name, test] of tests) {
    try {
      await within(name, Promise.resolve(test()), LONGEST_TEST);
      results.push({ name });
    } catch (error) {
      results.push({ name, error: String(error?.stack ?? error) });
    }
  }
  return results;
}

/** The checks of the conformance kit. Only those that are named may be skipped. */
export function ofChecks({ checks }, skipped = []) {
  return checks.map(({ name, verdict, reason }) => {
    const fine = verdict === (skipped.includes(name) ? "skipped" : "passed");
    return { name: `conformance: ${name}`, ...(fine ? {} : { error: `${verdict}: ${reason}` }) };
  });
}
