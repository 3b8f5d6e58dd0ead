// A page's first script takes the token out of the address, in whatever form the handler has found
// it there: what stayed would be in the history, and in the log of each reload.

import assert from "node:assert/strict";
import { test } from "node:test";

import { genuine, load } from "./consumer.mjs";

const { createVerifier, createMemoryStore } = load("mailroom-verifier");
const { createLinkHandler } = load("mailroom-verifier/handler");

const { key, token } = genuine.find(({ action }) => action === "activate");

/** What divides a token or its name without being seen, as mail programs write it. */
const BREAKS = ["", "%0D%0A", "%C2%AD", "%20", "%E2%80%8B", "=%0D%0A"];

/** What stands between the path and the name of the token. */
const BEGINNINGS = ["?", "%3F", "%253F", "=3F", "&", "&amp;", "&quest;", ";", "%EF%BC%9F", "%23"];

const NAMES = ["token", "%74oken", "tok%C2%ADen", "tok%0D%0Aen", "%EF%BD%94oken", "Token"];

const EQUALS = ["=", "%3D", "=3D", "%253D"];

function* addresses() {
  for (const divided of BREAKS) {
    const text = token.slice(0, 50) + divided + token.slice(50);
    for (const beginning of BEGINNINGS) {
      yield `/activate${beginning}${text}`;
      for (const name of NAMES)
        for (const equals of EQUALS) yield `/activate${beginning}${name}${equals}${text}`;
    }
  }
}

/** What the script of a page, which has found its link, makes of an address. */
function cleaned(page, href) {
  const [, script] = /<script[^>]*>([\s\S]*?)<\/script>/.exec(page);
  const addresses = [];
  const scope = {
    location: { href },
    history: { replaceState: (_state, _title, url) => addresses.push(url.href) },
    sessionStorage: undefined,
    addEventListener() {},
  };
  new Function(...Object.keys(scope), script)(...Object.values(scope));
  assert.equal(addresses.length, 1, "the script replaces the address once");
  return addresses[0];
}

test("no form of a token that the handler mends is left in the address", async () => {
  const verifier = createVerifier({ keys: key });
  const store = createMemoryStore({ capacity: 10 });
  const handle = createLinkHandler({ verifier, store, redeem: () => "ok", onError() {} });
  let shown = 0;
  const left = [];
  for (const address of addresses()) {
    const { href } = new URL(address, "https://app.example");
    const answer = await handle(new Request(href));
    const page = await answer.text();
    if (!page.includes(`value="${token}"`)) continue;
    shown += 1;
    const seen = decodeURIComponent(decodeURIComponent(cleaned(page, href)));
    if (seen.replace(/[^\w-]/g, "").includes(token.slice(0, 40))) left.push(address);
  }
  assert(shown > 500, `${shown} were mended`);
  assert.deepEqual(left, []);
});
