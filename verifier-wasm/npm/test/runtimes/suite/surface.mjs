// Every function and method that the declarations of the package list is called with every hostile
// value in every place: only documented errors come out, nothing is let through that should not be,
// and what was made before works afterwards.

import { holds, same } from "./expect.mjs";
import { BRIEFLY, HANGS } from "./patience.mjs";
import { handled, hostileValues } from "./hostile_values.mjs";
import { EITHER, USELESS, WORKS, fixtureOf } from "./surface_recipes.mjs";
import { fixtureOfActions } from "./surface_actions.mjs";
import { fixtureOfDatabase } from "./surface_database.mjs";
import { fixtureOfHandler } from "./surface_handler.mjs";
import { fixtureOfWeb } from "./surface_web.mjs";
import { fixtureOfTesting } from "./surface_testing.mjs";
import { fixtureOfLanguages } from "./surface_languages.mjs";
import { fixtureOfConformance, fixtureOfErrors, fixtureOfStore } from "./surface_stores.mjs";

/** Those whose methods need no `this`. */
const WITHOUT_THIS = [
  "Verifier",
  "PublicVerifier",
  "Guard",
  "VerifierModule",
  "MemoryStore",
  "Required",
  "LinkHandler",
  "WebVerifier",
  "SharedWebVerifier",
  "TestLinks",
  "TestLink",
  "Inbox",
];

/** Where a call takes long, one value of so many is tried in each place. */
const SLOW = 11;

/**
 * How many calls there are between two looks at what was made before: a signature takes longer than
 * most calls. The last one of each place is followed by one.
 */
const UNCHECKED = 8;

/** What the other bundles of the package import from an entry, and its declarations do not have. */
const INTERNAL = ["keepError"];

/** So many faults of one place are told. */
const TOLD = 4;

/**
 * @param {object} subject what the suite has, and
 * @param {object} subject.entries the namespaces of the package's entries
 * @param {object[]} subject.listed what `surfaceOf` found in its declarations
 */
export function* surface(subject) {
  for (const [entry, api] of Object.entries(subject.entries)) {
    const listed = subject.listed.filter((one) => one.entry === entry);
    yield [
      `${entry} exports what its declarations say`,
      () => {
        const declared = listed.filter(({ owner }) => owner === "").map(({ name }) => name);
        const exported = Object.keys(api).filter((name) => !INTERNAL.includes(name));
        same(exported.sort().join(), [...new Set(declared)].sort().join(), "exports");
      },
    ];
    const fixture = fixtureFor(subject, entry);
    const items = new Map(listed.map((item) => [`${item.owner}.${item.name}`, item]));
    for (const [id, item] of items) {
      if (item.kind === "value")
        yield [`${entry} ${id} is there`, () => isThere(api, fixture, item)];
      else if (fixture.recipes[id] === undefined)
        yield [`${entry} ${id}`, () => holds(false, "this has no recipe")];
      else
        for (const called of callsOf(api, fixture, item))
          yield* hostileCalls(subject, entry, fixture, called);
    }
    yield* undeclared(entry, fixture, listed);
  }
}

export function fixtureFor(subject, entry) {
  if (entry === "./actions") return fixtureOfActions(subject);
  if (entry === "./errors") return fixtureOfErrors(subject);
  if (entry === "./conformance") return fixtureOfConformance(subject);
  if (entry === "./database") return fixtureOfDatabase(subject);
  if (/^\.\/handler\b/.test(entry)) return fixtureOfHandler(subject, entry);
  if (entry === "./languages") return fixtureOfLanguages(subject);
  if (entry === "./web") return fixtureOfWeb(subject);
  if (entry === "./testing") return fixtureOfTesting(subject);
  return entry.startsWith("./stores/") ? fixtureOfStore(subject, entry) : fixtureOf(subject, entry);
}

function isThere(api, { samples }, { owner, name }) {
  const sample = owner === "" ? api : (samples[owner] ?? api[owner]);
  holds(sample !== undefined, `there is no sample of ${owner}`);
  holds(
    name in sample || (typeof api[owner] === "function" && name in api[owner]),
    `${owner} has no ${name}`,
  );
  void sample[name];
}

/** What objects have and their types do not say would be left out of all this. */
function* undeclared(entry, { samples }, listed) {
  for (const [owner, sample] of Object.entries(samples)) {
    const declared = listed.filter((one) => one.owner === owner).map(({ name }) => name);
    if (owner === "" || declared.length === 0) continue;
    // These have what all of their kind have.
    if (sample instanceof Error || typeof sample === "function") continue;
    yield [
      `${entry} ${owner} has nothing that is not declared`,
      () => {
        const names = [];
        for (
          let at = sample;
          at && at !== Object.prototype && at.constructor !== globalThis.Response;
          at = Object.getPrototypeOf(at)
        ) {
          names.push(...Reflect.ownKeys(at));
        }
        const others = names.filter((name) => name !== "constructor" && !declared.includes(name));
        same(others.join(), "", "names");
      },
    ];
  }
}

/** The recipes of a function or a method, together with how it is called. */
export function* callsOf(api, fixture, { owner, name, kind, parameters }) {
  const id = `${owner}.${name}`;
  for (const recipe of fixture.recipes[id]) {
    const sample = () => recipe.on?.() ?? fixture.samples[owner];
    let call;
    if (kind === "class") call = (args) => new api[name](...args);
    else if (owner === "") call = (args) => api[name](...args);
    else
      call = (args) =>
        ((self) =>
          Reflect.apply(self[name], WITHOUT_THIS.includes(owner) ? undefined : self, args))(
          sample(),
        );
    yield { id, recipe, call, parameters };
  }
}

function* hostileCalls(subject, entry, fixture, called) {
  const { id, recipe, parameters } = called;
  const title = `${entry} ${id}`;
  yield [
    `${title} works as it should`,
    async () => same(await outcomeOf(subject, called, recipe.args(), ""), WORKS, "a good call"),
  ];
  yield [
    `${title} without arguments`,
    async () => {
      const outcome = await outcomeOf(subject, called, [], "");
      holds(
        outcome !== WORKS ||
          parameters.length === 0 ||
          recipe.places[parameters[0].name] !== undefined,
        "it works",
      );
    },
  ];
  for (const place of placesOf(parameters, recipe.args())) {
    yield [
      `${title} with whatever as ${place.path}`,
      async () => {
        const faults = [];
        const values = hostileValues(fixture.text, fixture.reenter);
        for (const [index, [what, value]] of values.entries()) {
          if (recipe.isSlow && (index + place.path.length) % SLOW !== 0) continue;
          if (recipe.skips?.(place.path, value)) continue;
          const fault = await faultOf(subject, called, place, what, value);
          if (fault !== undefined) faults.push(fault);
          if (index % UNCHECKED === 0) await fixture.stillAccepts();
        }
        await fixture.stillAccepts();
        await fixture.stillRefuses();
        const more = faults.length > TOLD ? `\nand ${faults.length - TOLD} more` : "";
        holds(faults.length === 0, faults.slice(0, TOLD).join("\n") + more);
      },
    ];
  }
  yield [
    `${title} with good options whose getters call the package`,
    async () => {
      const args = recipe
        .args()
        .map((given) => (isPlain(given) ? withGetters(given, fixture.reenter) : given));
      const wanted = recipe.refusesGetters ? "refused" : WORKS;
      same(await outcomeOf(subject, called, args, ""), wanted, "a good call");
    },
  ];
  for (const name of new Set(parameters.flatMap(({ members }) => Object.keys(members)))) {
    yield [
      `${title} ignores what every object inherits as ${name}`,
      async () => {
        // What is given is not inherited.
        const args = recipe
          .args()
          .map((given) =>
            isPlain(given)
              ? Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
              : given,
          );
        if (args.some((given) => isPlain(given) && Object.hasOwn(given, name))) return;
        let outcome;
        Object.defineProperty(Object.prototype, name, {
          value: -2,
          configurable: true,
          writable: true,
        });
        try {
          outcome = await outcomeOf(subject, called, args, "");
        } finally {
          delete Object.prototype[name];
        }
        same(outcome, WORKS, "a good call");
      },
    ];
  }
}

/** What is wrong with a call that has this value in this place. */
export async function faultOf(subject, called, place, what, value) {
  const { recipe } = called;
  const outcomes = recipe.places[place.path] ?? recipe.places[place.path.replace(/ later$/, "")];
  const expected = outcomes?.(value, what);
  try {
    const args = place.put(recipe.args(), value);
    const patience = expected === EITHER ? BRIEFLY : undefined;
    const outcome = await outcomeOf(subject, called, args, place.path, patience);
    if (expected === EITHER || outcome === expected) return undefined;
    // Refused when it is made, instead of when it is used.
    if (expected === USELESS && outcome === "refused") return undefined;
    return outcome === "refused" && expected === undefined
      ? undefined
      : `${what}: ${outcome} instead of ${expected ?? "refused"}`;
  } catch (error) {
    return `${what}: ${error.message}`;
  }
}

/** Whether a call works, is refused, makes something useless, or hangs. What is neither throws. */
export async function outcomeOf(subject, { recipe, call }, args, path, patience) {
  const { within } = subject;
  let result;
  try {
    // What is there at once is no promise to wait for, even if it has a method then.
    result = call(args);
    if (result instanceof Promise) result = await within(result, patience);
    if (result === HANGS) return "hangs";
  } catch (error) {
    documented(subject, recipe, error, path);
    return "refused";
  }
  if (recipe.letsThrough === undefined) return WORKS;
  try {
    const does = await within(recipe.letsThrough(result, path), patience);
    if (does === HANGS) return "hangs";
    if (does) return WORKS;
  } catch (error) {
    documented(subject, recipe, error, path);
  }
  return recipe.makes ? USELESS : "refused";
}

function documented({ errors }, recipe, error, path) {
  if (recipe.throwsAnything?.(path)) return;
  const classes = Object.values(errors);
  if (classes.some((type) => type === error?.constructor)) return;
  holds(false, `not an error of the package: ${described(error)}`);
}

function described(error) {
  try {
    return `${error?.name}: ${error?.message} ${error?.stack?.split("\n").slice(1, 4).join(" | ")}`;
  } catch {
    return `a ${typeof error}`;
  }
}

/**
 * Every place of the arguments: each argument, each member of one, what each function among them
 * returns or throws.
 */
export function placesOf(parameters, args) {
  return parameters.flatMap(({ name, members }, index) => [
    { path: name, put: (given, value) => replaced(given, index, value) },
    ...(typeof args[index] === "function"
      ? answers(name, (given, value) => replaced(given, index, value))
      : []),
    ...membersOf(members, name, args[index], (given, change) =>
      replaced(given, index, change(given[index])),
    ),
  ]);
}

function membersOf(members, above, given, change) {
  if (typeof given !== "object" || given === null) return [];
  return Object.entries(members).flatMap(([name, { calls, members: inner }]) => {
    const path = `${above}.${name}`;
    const put = (args, value) => change(args, (object) => withMember(object, name, () => value));
    const within = (args, deeper) => change(args, (object) => withMember(object, name, deeper));
    return [
      { path, put },
      ...(calls ? answers(path, put) : []),
      ...membersOf(inner, path, given[name], within),
    ];
  });
}

/** A function in this place that answers at once, later, or with what it throws. */
function answers(path, put) {
  return [
    { path: `${path}()`, put: (args, value) => put(args, () => value) },
    {
      path: `${path}() later`,
      put: (args, value) => put(args, () => handled(Promise.resolve().then(() => value))),
    },
  ];
}

function replaced(list, index, value) {
  const copy = [...list];
  copy[index] = value;
  return copy;
}

function isPlain(value) {
  try {
    return (
      typeof value === "object" &&
      value !== null &&
      Object.getPrototypeOf(value) === Object.prototype
    );
  } catch {
    // A proxy.
    return false;
  }
}

/** A copy with another member, where a copy can be made. */
function withMember(object, name, make) {
  try {
    return isPlain(object) ? { ...object, [name]: make(object[name]) } : object;
  } catch {
    return object;
  }
}

function withGetters(object, reenter) {
  const read = (value) => ({
    enumerable: true,
    get() {
      reenter();
      return value;
    },
  });
  return Object.defineProperties(
    {},
    Object.fromEntries(Object.entries(object).map(([name, value]) => [name, read(value)])),
  );
}
