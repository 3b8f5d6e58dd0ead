// The conformance kit passes a correct store and finds every mistake, for the right reason.

import { away, BROKEN, Correct } from "./broken.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";

const SMALL = { capacity: 100, smallLimit: 300 };

export async function run({ report, load }) {
  const { checkStore } = load("conformance");
  const examine = (Store) =>
    checkStore({
      store: new Store(),
      unreachable: away(Store),
      small: new Store(SMALL.capacity),
      smallLimit: SMALL.smallLimit,
    });

  await report.run("conformance kit, a correct store", async () =>
    ofChecks(await examine(Correct)),
  );
  // Side by side, because they mostly wait.
  const examined = await Promise.all(
    BROKEN.map(async (broken) => ({ ...broken, report: await examine(broken.Store) })),
  );
  await report.run("conformance kit, broken stores", () => outcomes(examined.map(finds)));
  await report.run("conformance kit, calls", () => outcomes(calls(checkStore)));
}

function finds({ name, failing, report }) {
  return [
    `${name} fails ${failing.join(" and ")}`,
    () => {
      const failed = report.checks.filter(({ verdict }) => verdict === "failed");
      const names = failed.map((check) => check.name);
      if (names.join() !== failing.join() || report.passed) {
        throw new Error(
          failed.map((check) => `${check.name}: ${check.reason}`).join("\n") || "nothing failed",
        );
      }
    },
  ];
}

function* calls(checkStore) {
  yield [
    "what a store does not have, and what was not given, is skipped and said",
    async () => {
      const whole = new Correct();
      const { passed, checks } = await checkStore({
        store: { consume: whole.consume.bind(whole) },
      });
      const skipped = checks
        .filter(({ verdict, reason }) => verdict === "skipped" && reason)
        .map(({ name }) => name);
      if (
        !passed ||
        skipped.join() !==
          "release,bounds,numbers,withdraw,tries-are-bounded,tries-are-no-uses,errors,full"
      ) {
        throw new Error(JSON.stringify(checks));
      }
    },
  ];
  const store = new Correct();
  for (const options of [
    undefined,
    {},
    { store: {} },
    { store, small: 1 },
    { store, concurrency: 1 },
    { stores: store },
  ]) {
    yield [
      `the options ${JSON.stringify(options)?.slice(0, 40)} are refused`,
      async () => {
        const error = await checkStore(options).catch((thrown) => thrown);
        if (error?.reason !== "ERR_INVALID_ARGUMENT") {
          throw new Error(String(error));
        }
      },
    ];
  }
}
