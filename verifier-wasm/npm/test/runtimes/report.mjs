// What a step prints: a line for each run, every failure, and the result line that
// `cargo xtask test` adds up.

import { ANSWER_TIMEOUT, FULL } from "./scope.mjs";
import { PATIENCE, within } from "../waiting.mjs";

/** How long one run may take, in milliseconds: longer than an engine for all that it is asked. */
const LONGEST_RUN = FULL ? 4 * 3_600_000 : ANSWER_TIMEOUT + PATIENCE;

const REQUIRED = Boolean(process.env.CI) && process.env.CI !== "false";

export class Report {
  #counts = { passed: 0, failed: 0 };

  /**
   * Does one run and counts its results.
   *
   * @param {string} title
   * @param {() => Promise<{ name: string, error?: string }[]>} run
   * a run that throws counts as one failure
   */
  async run(title, run) {
    console.log(`${title} ...`);
    const started = performance.now();
    const results = await within(title, Promise.resolve().then(run), LONGEST_RUN).catch((error) => [
      { name: "the run", error: String(error?.stack ?? error) },
    ]);
    const failures = results.filter((result) => result.error !== undefined);
    for (const { name, error } of failures) {
      console.log(`test ${title}: ${name} ... FAILED\n${error.replace(/^/gm, "    ")}`);
    }
    if (results.length === 0) {
      failures.push({});
      console.log(`test ${title} ... FAILED\n    no test ran`);
    }
    this.#counts.failed += failures.length;
    this.#counts.passed += results.length - failures.length;
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    console.log(
      `${title}: ${results.length - failures.length} of ${results.length} passed in ${seconds} s`,
    );
  }

  /**
   * A run that cannot happen here, because something is not installed.
   * Where `CI` is set, that is a failure.
   */
  missing(title, reason) {
    if (REQUIRED) this.#counts.failed += 1;
    console.log(
      REQUIRED ? `test ${title} ... FAILED\n    ${reason}` : `skipped: ${title}: ${reason}`,
    );
  }

  /**
   * Prints the result line and sets the exit status. Something that is still open then, such as a
   * connection or a timer, would keep the process alive for ever: it is one more failure.
   */
  end() {
    const watch = setTimeout(() => {
      const open = process.getActiveResourcesInfo().join(", ");
      console.log(`test the end ... FAILED\n    these are still open: ${open}`);
      console.log("test result: FAILED. 0 passed; 1 failed");
      process.exit(1);
    }, PATIENCE);
    watch.unref();
    const { passed, failed } = this.#counts;
    const verdict = failed === 0 ? "ok" : "FAILED";
    console.log(`test result: ${verdict}. ${passed} passed; ${failed} failed`);
    process.exitCode = failed === 0 ? 0 : 1;
  }
}
