// The recipes of `./web`; see surface_recipes.mjs.

import { same } from "./expect.mjs";
import {
  anything,
  boundOf,
  fixtureOf,
  functions,
  genuine,
  isBytes,
  ofVerifier,
  optional,
  when,
  EITHER,
  WORKS,
} from "./surface_recipes.mjs";
import { altered } from "./tokens.mjs";

const ACTIVATE = { action: "activate" };
const inherited = when((_, what) => what === "options by inheritance", EITHER);
const anyBrowser = { "expected.nonce": () => WORKS };
const isOk = ({ ok }) => ok === true;

/** The same recipes for the method whose name begins with `try`. */
const both = (name, list) => ({
  [name]: list,
  [name.replace(/\.(.)/, (_, first) => `.try${first.toUpperCase()}`)]: list.map((recipe) => ({
    ...recipe,
    letsThrough: isOk,
  })),
});

/** What only a promise gives, which is made before anything hostile is. */
export async function samplesOfWeb(subject) {
  const { createVerifier, createSharedVerifier } = subject.entries["./web"];
  const open = fixtureOfKeys(subject, true, createVerifier);
  const shared = fixtureOfKeys(subject, false, createSharedVerifier);
  const { verifier, activation } = shared;
  return {
    openLink: await open.link(),
    WebLink: await shared.link(),
    VerifiedToken: await verifier.verify(activation.token, ACTIVATE),
    Verified: await verifier.tryVerify(activation.token, ACTIVATE),
    VerifiedWebLink: await verifier.tryVerifyLink(activation.token, ACTIVATE),
    Refused: await verifier.tryVerify(altered(activation.token), ACTIVATE),
  };
}

export function fixtureOfWeb(subject) {
  const api = subject.entries["./web"];
  const { openLink, ...samples } = subject.samplesOfWeb;
  const { reenter } = fixtureOf(subject, ".");
  const open = fixtureOfKeys(subject, true, api.createVerifier);
  const shared = fixtureOfKeys(subject, false, api.createSharedVerifier);
  const { nonce } = boundOf(subject, false);
  const { activation } = genuine(subject, true);
  return {
    text: activation.token,
    reenter,
    samples: { ...samples, ...shared.samples, ...open.samples },
    recipes: {
      ...both("WebLink.withUncountedCode", [
        { args: () => [genuine(subject, false).code], places: {} },
        { args: () => [undefined], on: () => openLink, places: { code: optional() } },
      ]),
      ...shared.recipes,
      ...open.recipes,
      ".bindingOf": [{ args: () => [nonce], places: {}, letsThrough: isBytes }],
      ".createVerifier": [
        {
          ...open.making,
          places: {
            ...open.making.places,
            "options.fallback": optional(functions),
            // Not called where the platform has what it is for.
            "options.fallback()": anything,
          },
        },
      ],
      ".createSharedVerifier": [shared.making],
    },
    async stillAccepts() {
      await open.stillAccepts();
      await shared.stillAccepts();
    },
    async stillRefuses() {
      await open.stillRefuses();
      await shared.stillRefuses();
    },
  };
}

function fixtureOfKeys(subject, isPublic, make) {
  const { activation, recovery, key, clock, code } = genuine(subject, isPublic);
  const bound = boundOf(subject, isPublic);
  const more = isPublic ? {} : { dangerouslyAllowSecretInBrowser: true };
  const creating = () => ({
    ...{ keys: key, accept: [isPublic ? "v3" : "v2"], clock, clockTolerance: 0 },
    ...more,
  });
  const verifier = make({ ...creating(), keys: [key, bound.key] });
  const recover = { action: "recover", code };
  const type = isPublic ? "WebVerifier" : "SharedWebVerifier";
  const toBound = () => [bound.token, { ...ACTIVATE, nonce: bound.nonce }];
  const link = () => verifier.verifyLink(recovery.token, { action: "recover" });
  const accepts = async ({ tryVerify }) => isOk(await tryVerify(activation.token, ACTIVATE));
  return {
    recipes: {
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
      ...(isPublic
        ? {}
        : both("SharedWebVerifier.verifyWithUncountedCode", [
            { args: () => [recovery.token, { ...recover }], places: anyBrowser },
          ])),
    },
    making: {
      args: () => [creating()],
      places: ofVerifier(subject, activation),
      letsThrough: accepts,
      makes: true,
    },
    samples: { [type]: verifier },
    async stillAccepts() {
      same(await accepts(verifier), true, "a genuine token");
    },
    async stillRefuses() {
      const forged = await verifier.tryVerify(altered(activation.token), ACTIVATE);
      same(isOk(forged), false, "a forged token");
      const other = await verifier.tryVerify(recovery.token, ACTIVATE);
      same(isOk(other), false, "a token of the other action");
    },
    link,
    verifier,
    activation,
  };
}
