// Prints every failure, and the result line that `cargo xtask test` adds up.

import { inspect } from "node:util";

export default async function* report(events) {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for await (const { type, data } of events) {
    if (type === "test:stdout" || type === "test:stderr") yield data.message;
    // Suites and files are counted by what is in them, unless they fail by themselves.
    const details = data?.details;
    const whole = details?.type === "suite" || details?.error?.failureType === "subtestsFailed";
    if (type === "test:pass" && !whole) counts[data.skip === undefined ? "passed" : "skipped"] += 1;
    if (type === "test:fail" && !whole) {
      counts.failed += 1;
      yield `test ${data.name} ... FAILED\n${inspect(details?.error?.cause ?? details?.error)}\n`;
    }
  }
  const { passed, failed, skipped } = counts;
  const verdict = failed === 0 ? "ok" : "FAILED";
  yield `test result: ${verdict}. ${passed} passed; ${failed} failed; ${skipped} ignored\n`;
}
