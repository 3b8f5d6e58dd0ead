// Requests to the handler, and handlers that answer them.

import { v2Pair } from "./tokens.mjs";

export const SITE = "https://app.example";
export const FORM = "application/x-www-form-urlencoded";

/** Requests, and handlers that answer them. */
export function scene(subject) {
  const { createVerifier, createMemoryStore, handlerEntry, vectors2, options } = subject;
  const { activation, recovery } = v2Pair(vectors2);
  const clock = () => activation.now;
  const verifier = createVerifier({ keys: activation.key, clock, ...options });
  const asked = [];
  const errors = [];
  const answers = { now: "ok" };
  const make = (more = {}) =>
    handlerEntry.createLinkHandler({
      verifier,
      store: createMemoryStore({ capacity: 200, clock }),
      redeem(link) {
        asked.push(link);
        if (answers.judge) return answers.judge(link);
        if (answers.now instanceof Error) throw answers.now;
        return answers.now;
      },
      onError: (error) => errors.push(error),
      ...more,
    });
  const open = (token, { path = "/activate", ...init } = {}) =>
    new Request(`${SITE}${path}?${new URLSearchParams({ token })}`, init);
  const press = (fields, { path = "/activate", headers, ...init } = {}) =>
    new Request(SITE + path, {
      method: "POST",
      body: new URLSearchParams(fields).toString(),
      ...init,
      headers: { Origin: SITE, "Content-Type": FORM, ...headers },
    });
  const recover = (code) => press({ token: recovery.token, code }, { path: "/recover" });
  return {
    activation,
    recovery,
    verifier,
    clock,
    asked,
    errors,
    answers,
    make,
    open,
    press,
    recover,
  };
}

export async function read(response) {
  return { status: response.status, headers: response.headers, text: await response.text() };
}

export function withoutNonce(text) {
  return text.replace(/nonce="[0-9a-f]{32}"/g, "");
}
