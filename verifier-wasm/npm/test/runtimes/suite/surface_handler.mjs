// The recipes of the handler; see surface_recipes.mjs.

import {
  EITHER,
  USELESS,
  WORKS,
  anything,
  fixtureOf,
  functions,
  ofGuard,
  optional,
  when,
} from "./surface_recipes.mjs";
import { v2Pair } from "./tokens.mjs";

const SITE = "https://app.example";

/** A press of the button; in the window of a browser a `Request` could not say where it is from. */
function press(path, fields) {
  const headers = new Headers({
    Origin: SITE,
    "Content-Type": "application/x-www-form-urlencoded",
  });
  const { body } = new Response(new URLSearchParams(fields).toString());
  return { method: "POST", url: SITE + path, headers, body };
}

export function fixtureOfHandler(subject, entry) {
  const { entries, vectors2 } = subject;
  const { createLinkHandler } = entries[entry];
  const { outcomeOf } = entries["./handler"];
  const { activation, recovery } = v2Pair(vectors2);
  const { samples, reenter, stillAccepts, stillRefuses } = fixtureOf(subject, ".");
  const store = () => ({ consume: () => true, attempt: () => 1, release() {}, withdraw() {} });
  const verifier = samples.Verifier;
  const making = () => ({
    verifier,
    store: store(),
    redeem: () => "ok",
    onError() {},
    storeTimeout: 0.01,
  });
  const activating = () => press("/activate", { token: activation.token });
  const recovering = () => press("/recover", { token: recovery.token, code: recovery.code });
  const uses = async (handler, path) => {
    const isOfCode = /attempt|withdraw|checkCode|maxCodeAttempts/.test(path);
    return (await handler(isOfCode ? recovering() : activating())).status === 200;
  };
  const objects = optional(when((value) => typeof value === "object" && value !== null, EITHER));
  return {
    text: activation.token,
    samples: {
      LinkHandler: createLinkHandler(making()),
      RefusalOutcome: outcomeOf("ERR_STORE_FULL"),
      BrowserBinding: { binding: new Uint8Array(16), setCookie: "" },
      PasswordField: { label: "", hint: "", show: "", minLength: 15, maxLength: 256 },
      Way: { address: "/", label: "" },
      "Judgement.renew": { token: "", button: "" },
      Judgement: {
        ...{
          page: "done",
          status: 200,
          headers: new Headers(),
          action: "activate",
          token: undefined,
          codeDigits: 0,
        },
        ...{ browserCodeDigits: 0, browserCodeLabel: "", browser: undefined },
        ...{ password: undefined, renew: undefined, ways: [] },
        ...{
          expiresAt: undefined,
          problem: undefined,
          reason: undefined,
          language: "en",
          title: "",
          text: "",
        },
        ...{ button: "", codeLabel: "", nonce: "", response: undefined },
      },
    },
    recipes: {
      ".createLinkHandler": [
        {
          args: () => [making()],
          places: {
            ...ofGuard(false),
            "options.redeem": functions,
            "options.check": optional(functions),
            "options.check()": (value, what) =>
              value === undefined
                ? WORKS
                : what === "a proxy that answers itself"
                  ? EITHER
                  : USELESS,
            "options.countsAttempts": optional(when((value) => typeof value === "boolean", WORKS)),
            // Of a promise that never comes to anything there is no end.
            "options.redeem()": (value, what) =>
              value === "ok" ? WORKS : what === "a proxy that answers itself" ? EITHER : USELESS,
            // The verifier knows which actions there are.
            "options.action": optional(
              when((value) => typeof value === "string" && value !== "", USELESS),
            ),
            "options.publicKeys": optional(functions),
            // It is called for the page that reads a token behind "#" alone.
            "options.publicKeys()": anything,
            "options.password": objects,
            "options.renewLink": optional(functions),
            "options.renewLink()": anything,
            "options.site": objects,
            "options.pages": objects,
            "options.language": optional(functions),
            "options.language()": anything,
            "options.texts": objects,
            "options.policy": objects,
            "options.origins": objects,
            "options.onError": optional(functions),
            "options.onError()": anything,
          },
          letsThrough: uses,
          makes: true,
        },
      ],
      "LinkHandler.judge": [
        {
          args: () => [activating(), { waitUntil() {} }],
          places: { context: anything },
          letsThrough: ({ page }) => page === "done",
        },
      ],
      ".bindBrowser": [
        {
          args: () => [press("/ask", {}), {}],
          places: {
            request: when((value) => typeof value === "object" && value !== null, EITHER),
            "request.url": anything,
            "request.headers": when((value) => typeof value === "object" && value !== null, EITHER),
            options: optional(when((value) => typeof value === "object" && value !== null, EITHER)),
            "options.origins": objects,
          },
        },
      ],
      ".outcomeOf": [
        {
          args: () => ["ERR_TOKEN_USED"],
          places: { reason: () => undefined },
        },
      ],
      ".toNodeListener": [
        {
          args: () => [createLinkHandler(making())],
          places: { handler: functions, "handler()": anything },
          letsThrough: async (listener) => (await answerOf(listener, activation.token)) === 200,
          makes: true,
        },
      ],
    },
    reenter,
    stillAccepts,
    stillRefuses,
  };
}

/** The status that a listener of Node's answers to the opening of a link. */
function answerOf(listener, token) {
  return new Promise((resolve) => {
    const response = { statusCode: 0, setHeader() {}, end: () => resolve(response.statusCode) };
    const headers = { host: "app.example" };
    listener(
      { method: "GET", url: `/activate?token=${token}`, headers, on() {}, pause() {}, resume() {} },
      response,
    );
  });
}
