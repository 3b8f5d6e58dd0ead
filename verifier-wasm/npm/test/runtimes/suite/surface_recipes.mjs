// How each function and method of the verifiers and guards is called as it should be, and what
// other arguments lead to. A fixture has `samples`, an object of each type, and `recipes`: by the
// type and the name of a function, a list of
//
// - `args()`: the arguments of a call that is as it should be;
// - `places`: by the path of an argument, what a value there leads to, if not to a refusal: one of
//   the three below;
// - `letsThrough(result, path)`: whether what came out lets a token through, where it is not enough
//   that nothing was thrown;
// - `makes`: a refusal is an exception, and what comes out is tried by `letsThrough`;
// - `throwsAnything(path)`: what a function of the caller in this place throws comes out as it is;
// - `skips(path, value)`: values that take too much of the machine.

import { same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { altered, v2Pair, v3Pair } from "./tokens.mjs";

/** What a value may lead to in one place. */
export const WORKS = "works";
/** It may be taken, but what is made with it lets nothing through. */
export const USELESS = "useless";
export const EITHER = "either";

const LAST_SECOND = 253_402_300_799;
const ACTIVATE = { action: "activate" };

export const isFunction = (value) => typeof value === "function";
const isWhole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;
const isNumber = (value, least, most) =>
  typeof value === "number" && value >= least && value <= most;
/** Where leaving the argument out is right. */
export const optional = (more) => (value, what) =>
  value === undefined ? WORKS : more?.(value, what);
export const functions = (value) => (isFunction(value) ? EITHER : undefined);
export const when =
  (holds, outcome = WORKS) =>
  (value, what) =>
    holds(value, what) ? outcome : undefined;
export const anything = () => EITHER;
export const isTrue = (value, what) => value === true || what === "a thenable of true";

/** An object of a class of the caller's may have options by inheritance. */
const inherited = when((_, what) => what === "options by inheritance", EITHER);

/** A verifier of one's own is believed, and what `checkCode` throws, `redeem` throws. */
const isOfCaller = (path) => /^options\.(verifier|checkCode)/.test(path);

/** Of an entry that makes verifiers or guards. */
export function fixtureOf(subject, entry) {
  if (entry !== "./slim")
    return fixtureOfKeys(subject, entry, subject.entries[entry], "", entry === "./public");
  const { module, publicModule } = subject;
  const { instantiate, instantiatePublic } = subject.entries[entry];
  const ofPublic = fixtureOfKeys(
    subject,
    entry,
    instantiatePublic(publicModule),
    "PublicVerifierModule",
    true,
  );
  const ofShared = fixtureOfKeys(subject, entry, instantiate(module), "VerifierModule", false);
  return {
    ...ofShared,
    samples: { ...ofPublic.samples, ...ofShared.samples },
    recipes: {
      ...ofPublic.recipes,
      ...ofShared.recipes,
      ".instantiate": [{ args: () => [module], places: {} }],
      ".instantiatePublic": [{ args: () => [publicModule], places: {} }],
    },
  };
}

/**
 * What `api` makes with shared keys or public ones; `maker` is its type,
 * or nothing if it is the entry itself.
 */
function fixtureOfKeys(subject, _entry, api, maker, isPublic) {
  const { entries } = subject;
  const { activation, recovery, key, clock, code } = genuine(subject, isPublic);
  const { createVerifier } = api.createVerifier ? api : entries["."];
  const more = isPublic ? { signatures: "webassembly" } : { dangerouslyAllowSecretInBrowser: true };
  const creating = () => ({
    keys: key,
    accept: [isPublic ? "v3" : "v2"],
    clock,
    clockTolerance: 0,
    ...more,
  });
  const bound = boundOf(subject, isPublic);
  const verifier = createVerifier({ ...creating(), keys: [key, bound.key] });
  const store = () => ({ consume: () => true, attempt: () => 1, release() {}, withdraw() {} });
  const guarding = () => ({
    verifier,
    store: store(),
    checkCode: isPublic ? () => true : undefined,
    storeTimeout: 0.01,
  });
  const recover = { action: "recover", code };
  const link = () => verifier.verifyLink(recovery.token, { action: "recover" });

  const isOk = ({ ok }) => ok === true;
  const accepts = ({ tryVerify }) => isOk(tryVerify(activation.token, ACTIVATE));
  const redeems = async ({ tryRedeem }, path) =>
    /attempt|withdraw|checkCode|maxCodeAttempts/.test(path)
      ? isOk(await tryRedeem(recovery.token, recover))
      : isOk(await tryRedeem(activation.token, ACTIVATE));
  const both = (name, list) => ({
    [name]: list,
    [name.replace(/\.(.)/, (_, first) => `.try${first.toUpperCase()}`)]: list.map((recipe) => ({
      ...recipe,
      letsThrough: isOk,
    })),
  });

  const type = isPublic ? "PublicVerifier" : "Verifier";
  // A link that is not bound ignores it; a bound one takes no other.
  const anyBrowser = { "expected.nonce": () => WORKS };
  const toBound = () => [bound.token, { ...ACTIVATE, nonce: bound.nonce }];
  const ofRedeem = {
    expected: inherited,
    "expected.expiresAt": optional(when((value) => isNumber(value, 0, LAST_SECOND))),
    ...anyBrowser,
    callback: optional(functions),
    "callback()": anything,
  };
  const redeeming = [
    {
      args: () => [activation.token, { ...ACTIVATE }, () => "done"],
      places: { ...ofRedeem, "expected.code": optional() },
    },
    { args: () => [recovery.token, { ...recover }], places: ofRedeem },
    {
      args: toBound,
      places: { ...ofRedeem, "expected.nonce": undefined, "expected.code": optional() },
    },
  ].map((recipe) => ({ ...recipe, throwsAnything: (path) => path.startsWith("callback") }));
  const recipes = {
    ...both("Guard.redeem", redeeming),
    [`${maker}.createGuard`]: [
      {
        args: () => [guarding()],
        places: ofGuard(isPublic),
        letsThrough: redeems,
        makes: true,
        throwsAnything: isOfCaller,
      },
    ],
  };
  if (api.createVerifier) {
    Object.assign(recipes, {
      ...both(`${type}.verify`, [
        {
          args: () => [activation.token, { ...ACTIVATE }],
          places: { expected: inherited, ...anyBrowser, "expected.code": optional() },
        },
        { args: toBound, places: { "expected.code": optional() } },
      ]),
      ...both(`${type}.verifyLink`, [
        { args: () => [recovery.token, { action: "recover" }], places: anyBrowser },
      ]),
      ...both("VerifiedLink.withUncountedCode", [
        { args: () => [isPublic ? undefined : code], places: isPublic ? { code: optional() } : {} },
      ]),
      [`${maker}.bindingOf`]: [
        { args: () => [bound.nonce], places: {}, letsThrough: (binding) => isBytes(binding) },
      ],
      [`${maker}.decodeUnverified`]: [{ args: () => [activation.token], places: {} }],
      [`${maker}.createVerifier`]: [
        {
          args: () => [creating()],
          places: ofVerifier(subject, activation),
          letsThrough: accepts,
          makes: true,
        },
      ],
    });
  }
  if (!isPublic && api.createVerifier) {
    Object.assign(
      recipes,
      both("Verifier.verifyWithUncountedCode", [
        { args: () => [recovery.token, { ...recover }], places: anyBrowser },
      ]),
    );
  }
  if (api.createMemoryStore) Object.assign(recipes, ofMemory(maker, clock));

  const refused = verifier.tryVerify(altered(activation.token), ACTIVATE);
  return {
    text: activation.token,
    recipes,
    samples: {
      [maker]: api,
      [type]: verifier,
      Guard: api.createGuard(guarding()),
      VerifiedToken: verifier.verify(activation.token, ACTIVATE),
      VerifiedLink: link(),
      Verified: verifier.tryVerify(activation.token, ACTIVATE),
      VerifiedLinkResult: verifier.tryVerifyLink(activation.token, ACTIVATE),
      UnverifiedToken: api.decodeUnverified?.(activation.token),
      Refused: refused,
      VerificationError: entries["./errors"].errorOf(refused),
      RefusedRedemption: refused,
      RedemptionError: new entries["./errors"].TokenUsedError("the token was used before"),
      Redeemed: { ok: true, token: undefined, result: undefined },
      MemoryStore: api.createMemoryStore?.({ capacity: 1000, clock }),
    },
    reenter() {
      same(accepts(verifier), true, "a genuine token, while an argument is read");
      same(isOk(verifier.tryVerify(altered(activation.token), ACTIVATE)), false, "a forged one");
    },
    /** What was made before accepts what it has accepted. */
    stillAccepts() {
      same(accepts(verifier), true, "a genuine token");
    },
    /**
     * And refuses what it has refused. Asked less often: a signature takes longer than most calls.
     */
    stillRefuses() {
      same(isOk(verifier.tryVerify(altered(activation.token), ACTIVATE)), false, "a forged token");
      same(
        isOk(verifier.tryVerify(recovery.token, ACTIVATE)),
        false,
        "a token of the other action",
      );
    },
  };
}

export function genuine({ vectors2, vectors3 }, isPublic) {
  const { activation, recovery } = isPublic ? v3Pair(vectors3) : v2Pair(vectors2);
  const key = isPublic ? text(activation.publicKey) : activation.key;
  return { activation, recovery, key, clock: () => activation.now, code: recovery.code ?? "04711" };
}

/** A genuine link for one browser, and its nonce. */
export function boundOf({ vectorsOfBound }, isPublic) {
  const isMeant = ({ version, action }) => version === (isPublic ? 3 : 2) && action === "activate";
  const group = vectorsOfBound.groups.find(isMeant);
  const { token, nonce } = group.tests.find(({ comment }) => comment === "genuine");
  return { token, nonce, key: isPublic ? text(group.public_key) : group.key };
}

export function ofVerifier({ inWindow }, { expiresAt }) {
  return {
    // Called at the first use, and then no key.
    "options.keys": when(isFunction, USELESS),
    "options.keys()": when(() => true, USELESS),
    "options.actions": optional(),
    "options.accept": optional(),
    "options.clock": optional(functions),
    "options.clock()": (now) => (isNumber(now, 0, expiresAt - 1) ? WORKS : USELESS),
    "options.clock() later": () => USELESS,
    "options.signatures": optional(),
    "options.clockTolerance": optional(when((value) => isWhole(value, 0, 999))),
    "options.dangerouslyAllowSecretInBrowser": inWindow
      ? when((value) => value === true)
      : optional(when((value) => typeof value === "boolean")),
  };
}

export function ofGuard(isPublic) {
  const ofCode = (value, what) => (!isPublic || isTrue(value, what) ? WORKS : USELESS);
  return {
    // A verifier of the caller's own is believed.
    "options.verifier": when((value) => isFunction(value) || typeof value === "object", EITHER),
    "options.verifier.tryVerify": functions,
    "options.verifier.tryVerify()": anything,
    "options.verifier.tryVerifyLink": functions,
    "options.verifier.tryVerifyLink()": anything,
    "options.verifier.clockTolerance": anything,
    "options.store": when((_, what) => what === "a proxy that answers itself", USELESS),
    "options.store.consume": functions,
    "options.store.consume()": (value, what) => (isTrue(value, what) ? WORKS : USELESS),
    "options.store.attempt": (value) => (value === undefined ? USELESS : functions(value)),
    "options.store.attempt()": (value, what) =>
      isWhole(value, 1, 5) || what === "a thenable that answers twice" ? WORKS : USELESS,
    "options.store.release": optional(functions),
    "options.store.release()": anything,
    "options.store.withdraw": optional(functions),
    "options.store.withdraw()": anything,
    "options.maxCodeAttempts": optional(when((value) => isWhole(value, 1, 100))),
    "options.checkCode": (value) =>
      isFunction(value) ? EITHER : value === undefined ? ofCode(value) : undefined,
    "options.checkCode()": (value, what) =>
      what === "a proxy that answers itself" ? EITHER : ofCode(value, what),
    "options.storeTimeout": optional(when((value) => isNumber(value, 0.001, 600))),
    "options.v1RememberFor": optional(when((value) => isNumber(value, 1, 315_576_000))),
  };
}

/** Its stores are recipes' own, so that what one call uses is not missing for another. */
function ofMemory(maker, clock) {
  let last = 0;
  const id = () => {
    last += 1;
    return new Uint8Array(new BigUint64Array([0n, BigInt(last)]).buffer);
  };
  const owner = () => new Uint8Array(16).fill(7);
  const until = () => clock() + 1000;
  const place = when((value) => isBytes(value), EITHER);
  const places = {
    id: place,
    owner: place,
    rememberUntil: when((value) => typeof value === "number", EITHER),
  };
  const consume = { args: () => [id(), until(), owner()], places };
  return {
    "MemoryStore.consume": [consume],
    "MemoryStore.attempt": [consume],
    "MemoryStore.release": [consume],
    "MemoryStore.withdraw": [consume],
    [`${maker}.createMemoryStore`]: [
      {
        args: () => [{ capacity: 2, clock }],
        places: {
          "options.capacity": when((value) => isWhole(value, 1, 70_000)),
          "options.clock": optional(functions),
          "options.clock()": (now) => (isNumber(now, 0, until() - 1) ? WORKS : USELESS),
          "options.clock() later": () => USELESS,
        },
        letsThrough: (store) => store.consume(id(), until(), owner()) === true,
        makes: true,
        // A gibibyte for each.
        skips: (_, value) => isNumber(value, 70_001, 26_843_545),
      },
    ],
  };
}

const lengthOf = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  "length",
).get;

/** What an id and an owner are: 16 bytes, whatever the object says of itself. */
export function isBytes(value) {
  return (
    ArrayBuffer.isView(value) &&
    Object.prototype.toString.call(value) === "[object Uint8Array]" &&
    Reflect.apply(lengthOf, value, []) === 16
  );
}
