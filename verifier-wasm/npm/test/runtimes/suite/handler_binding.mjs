// What a request for a link gets for its browser: the binding, and the cookie that holds its nonce.

import { noNonces, scene as sceneOfBrowsers } from "./browsers.mjs";
import { holds, same } from "./expect.mjs";
import { BROWSER } from "./handler_bound_scene.mjs";
import { SITE } from "./handler_scene.mjs";
import { hex } from "./tokens.mjs";

export function* handlerBinding(subject) {
  const { handlerEntry, bindingOf } = subject;
  const attributes = /^Max-Age=\d+; Path=\/; Secure; HttpOnly; SameSite=Lax$/;
  const nonceOf = (setCookie) => {
    const [, nonce, rest] = /^__Host-mailroom-browser=([\w-]{43}); (.*)$/.exec(setCookie) ?? [];
    return attributes.test(rest) ? nonce : undefined;
  };
  yield [
    "a browser that asks for a link gets a cookie, keeps one that it has, " +
      "and its binding is that of the verifier",
    async () => {
      const bind = (cookies) => handlerEntry.bindBrowser(asking({ Origin: SITE }, cookies));
      const seen = new Set();
      for (const cookies of [undefined, "", "a=b", `${BROWSER}=x`, ...Array.from({ length: 50 })]) {
        const { binding, setCookie } = await bind(cookies);
        const nonce = nonceOf(setCookie);
        holds(nonce !== undefined && !seen.has(nonce), setCookie);
        seen.add(nonce);
        if (bindingOf) same(hex(binding), hex(bindingOf(nonce)), "binding");
        const kept = await bind(`a=b; ${BROWSER}=${nonce}; c=d`);
        same(
          `${nonceOf(kept.setCookie)} ${hex(kept.binding)}`,
          `${nonce} ${hex(binding)}`,
          "one that is there",
        );
      }
      const { nonce } = sceneOfBrowsers(subject, "activate");
      for (const [what, text] of noNonces(nonce).filter(([, value]) => typeof value === "string")) {
        const { setCookie } = await bind(`${BROWSER}=${text}`);
        holds(nonceOf(setCookie) !== undefined && nonceOf(setCookie) !== nonce, what);
      }
      const twice = await bind(`${BROWSER}=${nonce}; ${BROWSER}=${nonce}`);
      holds(nonceOf(twice.setCookie) !== nonce, "a cookie that came twice");
    },
  ];
  yield [
    "a request of another site, or of none that is said, gets no binding and no cookie, " +
      "by the rule of the handler",
    async () => {
      const { bindBrowser } = handlerEntry;
      for (const [headers, isTaken] of [
        [{ Origin: SITE }, true],
        [{ Origin: SITE, "Sec-Fetch-Site": "same-origin" }, true],
        [{ Origin: "null", "Sec-Fetch-Site": "same-origin" }, true],
        [{ Origin: "https://listed.example", "Sec-Fetch-Site": "cross-site" }, true],
        [{}, false],
        [{ Origin: "null" }, false],
        [{ Origin: "https://evil.example" }, false],
        [{ Origin: "https://evil.example", "Sec-Fetch-Site": "cross-site" }, false],
        [{ Origin: SITE, "Sec-Fetch-Site": "same-site" }, false],
        [{ "Sec-Fetch-Site": "none" }, false],
      ]) {
        for (const request of [asking(headers), nodes(headers)]) {
          const bound = await bindBrowser(request, { origins: ["https://listed.example"] });
          same(bound !== undefined, isTaken, JSON.stringify(headers));
        }
      }
    },
  ];
  yield [
    "what is no request is refused",
    async () => {
      for (const wrong of [
        undefined,
        null,
        1,
        {},
        "a=b",
        ["a=b"],
        new Headers(),
        () => "",
        Symbol("a"),
      ]) {
        let reason = "none";
        await handlerEntry.bindBrowser(wrong).catch((error) => (reason = error.reason));
        same(reason, "ERR_INVALID_ARGUMENT", typeof wrong);
      }
      for (const origins of ["x", [1], ["https://a.example/"]]) {
        let reason = "none";
        await handlerEntry
          .bindBrowser(asking({}), { origins })
          .catch((error) => (reason = error.reason));
        same(reason, "ERR_INVALID_ARGUMENT", String(origins));
      }
    },
  ];
}

/**
 * A request for a link, as a `Request` has it; in the window of a browser that could not say where
 * it is from.
 */
function asking(headers, cookies) {
  const all = new Map(
    Object.entries({ ...headers, ...(cookies !== undefined && { Cookie: cookies }) }),
  );
  return { method: "POST", url: `${SITE}/ask`, headers: { get: (name) => all.get(name) ?? null } };
}

/** The same as Node has it. */
function nodes(headers) {
  const all = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    url: "/ask",
    socket: { encrypted: true },
    headers: { host: "app.example", ...Object.fromEntries(all) },
  };
}
