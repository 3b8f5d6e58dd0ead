/**
 * Tests a store of used tokens of your own, as this project tests those that it ships.
 *
 * @module
 */

import { readMethod, readOptions } from "../arguments/options.js";
import { readClock } from "../arguments/seconds.js";
import { errors, full } from "../conformance/faults.js";
import { type Check, Fault, Skipped, type Subject } from "../conformance/subject.js";
import { extending, forgets, past, remembers } from "../conformance/times.js";
import { numbers, triesAreBounded, triesAreNoUses, withdrawing } from "../conformance/tries.js";
import { bounds, ids, oneWinner, releasing, repeats } from "../conformance/uses.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { TokenStore } from "../stores/token_store.js";

export type { TokenStore } from "../stores/token_store.js";

/** What {@link checkStore} takes. Options of other names are refused. */
export interface ConformanceOptions {
  /**
   * The store, on a backend that works. The checks use random ids, so that it need not be empty.
   */
  readonly store: TokenStore;
  /**
   * The same kind of store on a backend that does not answer or refuses: a port where nothing
   * listens, for instance.
   */
  readonly unreachable?: TokenStore | undefined;
  /** The same kind of store on a backend with little room, which the checks fill. */
  readonly small?: TokenStore | undefined;
  /**
   * After how many entries `small` must be full.
   *
   * @default 100000
   */
  readonly smallLimit?: number | undefined;
  /**
   * How many ask for one id at once.
   *
   * @default 200
   */
  readonly concurrency?: number | undefined;
  /**
   * The clock of the store, in seconds since the Unix epoch, if it is not the system's.
   *
   * @default the system's clock
   */
  readonly clock?: (() => number) | undefined;
  /**
   * Resolves when `seconds` have passed on that clock.
   *
   * @default a timer
   */
  readonly sleep?: ((seconds: number) => Promise<void>) | undefined;
}

/** The names of the checks. */
export type CheckName =
  | "one-winner"
  | "ids"
  | "repeats"
  | "release"
  | "bounds"
  | "numbers"
  | "withdraw"
  | "tries-are-bounded"
  | "tries-are-no-uses"
  | "remembers"
  | "forgets"
  | "past"
  | "extends"
  | "errors"
  | "full";

/** What one check found. */
export interface CheckResult {
  readonly name: CheckName;
  readonly verdict: "passed" | "failed" | "skipped";
  /** What is wrong with the store, or what was missing for the check. */
  readonly reason?: string;
}

/** What all checks found. */
export interface ConformanceReport {
  /** Whether no check failed. Those that were skipped say nothing: give what they need. */
  readonly passed: boolean;
  readonly checks: readonly CheckResult[];
}

const CHECKS: Record<CheckName, Check> = {
  "one-winner": oneWinner,
  ids,
  repeats,
  release: releasing,
  bounds,
  numbers,
  withdraw: withdrawing,
  "tries-are-bounded": triesAreBounded,
  "tries-are-no-uses": triesAreNoUses,
  remembers,
  forgets,
  past,
  extends: extending,
  errors,
  full,
};

const TIMED: readonly CheckName[] = ["remembers", "forgets", "past", "extends"];

/**
 * Runs every check on a store, most of them side by side, in five seconds and as long as it takes
 * to fill `small`.
 *
 * | check | what it demands |
 * |---|---|
 * | `one-winner` | of 200 who consume one id at once, one is told `true` and the others `false` |
 * | `ids` | ids that differ in one bit, case, zeros or bytes that are no text are different ids |
 * | `repeats` | a `consume` or `attempt` that its owner repeats is answered as the first time |
 * | `release` | ends the use of its owner alone, also before its `consume`; tries stay counted |
 * | `bounds` | 100 owners of a link can be released, and the store refuses to forget one of them |
 * | `numbers` | 200 tries at once get the numbers 1 to 100, and 101 |
 * | `withdraw` | takes back the try of its owner alone, for good, also before its `attempt` |
 * | `tries-are-bounded` | once 100 owners have tried, taken back or not, others are answered 101 |
 * | `tries-are-no-uses` | tries do not use a token, and its use does not reset them |
 * | `remembers` | an entry is denied until its time; so are owners released or withdrawn |
 * | `forgets` | it is gone 1.5 s after it |
 * | `past` | what was to be remembered until a time that is over is refused, never a first use |
 * | `extends` | a later time extends an entry, an earlier one does not shorten it |
 * | `errors` | a store that cannot be reached does not consent |
 * | `full` | a full store refuses, and forgets nothing that is not over |
 *
 * @throws InvalidArgumentError when the call is wrong;
 * what is wrong with the store is in the report
 * @example
 * const { passed, checks } = await checkStore({ store, unreachable, small });
 * for (const { name, verdict, reason = "" } of checks) console.log(name, verdict, reason);
 */
export async function checkStore(options: ConformanceOptions): Promise<ConformanceReport> {
  const subject = readSubject(options);
  const run = (names: readonly CheckName[]) =>
    Promise.all(names.map((name) => judge(name, subject)));
  const names = Object.keys(CHECKS) as CheckName[];
  const isTimed = (name: CheckName) => TIMED.includes(name);
  // What depends on time comes when a slow store has nothing else to do.
  const found = [
    ...(await run(names.filter((name) => !isTimed(name)))),
    ...(await run(names.filter(isTimed))),
  ];
  const checks = found.sort((one, other) => names.indexOf(one.name) - names.indexOf(other.name));
  return { passed: checks.every(({ verdict }) => verdict !== "failed"), checks };
}

async function judge(name: CheckName, subject: Subject): Promise<CheckResult> {
  try {
    const skipped = await CHECKS[name](subject);
    return skipped instanceof Skipped
      ? { name, verdict: "skipped", reason: skipped.reason }
      : { name, verdict: "passed" };
  } catch (error) {
    const thrown = error instanceof Error ? error.message : String(error);
    return {
      name,
      verdict: "failed",
      reason: error instanceof Fault ? thrown : `the store threw: ${thrown}`,
    };
  }
}

function readSubject(options: unknown): Subject {
  const [store, unreachable, small, smallLimit = 100_000, concurrency = 200, clock, sleep] =
    readOptions(options, [
      "store",
      "unreachable",
      "small",
      "smallLimit",
      "concurrency",
      "clock",
      "sleep",
    ]);
  for (const count of [smallLimit, concurrency]) {
    if (!Number.isSafeInteger(count) || (count as number) < 2) {
      throw new InvalidArgumentError(
        "the options smallLimit and concurrency are whole numbers from 2",
      );
    }
  }
  if (sleep !== undefined && typeof sleep !== "function") {
    throw new InvalidArgumentError("the option sleep must be a function");
  }
  return {
    store: readStore(store, "store"),
    unreachable: unreachable === undefined ? undefined : readStore(unreachable, "unreachable"),
    small: small === undefined ? undefined : readStore(small, "small"),
    smallLimit: smallLimit as number,
    concurrency: concurrency as number,
    now: readClock(clock),
    sleep: (sleep as Subject["sleep"] | undefined) ?? sleepByTimer,
  };
}

function readStore(store: unknown, name: string): TokenStore {
  if (!readMethod(store, "consume")) {
    throw new InvalidArgumentError(`the option ${name} must be an object with the method consume`);
  }
  return store as TokenStore;
}

function sleepByTimer(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
