// How much is run: `cargo xtask test --full` runs the whole suite in every way to load the package,
// the default once in each engine.

/** Whether everything is asked for. */
export const FULL = Boolean(process.env.MAILROOM_TEST_FULL);

/**
 * How long an engine may take for all that it is asked, in milliseconds:
 * the whole surface takes minutes, and on a busy machine a quarter of an hour.
 */
export const ANSWER_TIMEOUT = FULL ? 3_600_000 : 1_500_000;

/**
 * The topics that a way to load the package can change;
 * the others are the same code once it is loaded.
 */
const LOADING = [
  ...["vectors", "v2", "v3", "actions", "bound", "links", "publicKeys", "keys"],
  ...["realm", "errors", "refusals", "inherited", "slim", "window"],
].join(",");

/**
 * The topics for another way to load the package in an engine that has run them all: an argument,
 * none if all are asked for.
 */
export const loading = FULL ? [] : [LOADING];

/** How many calls with random hostile arguments the whole surface gets in each engine. */
export const RANDOM_CALLS = FULL ? 100_000 : 20_000;

/** How many random tokens `./web` judges in each engine, of which the modules know the verdict. */
export const RANDOM_TOKENS = FULL ? 1_000_000 : 20_000;

/** The same for an engine without finalizers, where what must be freed would stay. */
export const freeing = FULL ? [] : ["links,endurance"];

/** The same as the query of an address. */
export const loadingQuery = FULL ? {} : { topics: LOADING };

/** Whether all cases are judged where the module judges because the platform is not believed. */
export const judging = FULL ? ["whole"] : [];
