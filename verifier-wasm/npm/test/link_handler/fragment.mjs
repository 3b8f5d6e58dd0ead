// Links whose token is behind `#`, in Chromium: what everybody gets to read who might keep it. A
// control shows that what is searched has the token where a link has it in its address.

import { generateKeyPairSync, createHash, randomBytes, sign } from "node:crypto";

import { axe } from "../browser/axe.mjs";
import { following } from "../browser/chromium.mjs";
import { LOOKS, overflow } from "../browser/looks.mjs";
import { Checks } from "../checks.mjs";
import { until } from "../waiting.mjs";
import { Database, listening } from "./server.mjs";

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const RAW = Buffer.from(publicKey.export({ format: "jwk" }).x, "base64url");
const KEY = `mrpk_${RAW.toString("base64url")}`;

/** A fresh link of v3 (docs/reference/token-format.md). */
export function newLink(binding = Buffer.alloc(0)) {
  const header = Buffer.alloc(14);
  const keyId = createHash("sha256")
    .update("mailroom/v3 key id\0")
    .update(RAW)
    .digest()
    .subarray(0, 4);
  header.set([3, binding.length > 0 ? 0x81 : 1, ...keyId]);
  header.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 1000) + 3600), 6);
  const secret = randomBytes(32);
  const signed = Buffer.concat([header, binding, secret]);
  const signature = sign(
    null,
    Buffer.concat([Buffer.from("mailroom/v3 link\0"), signed]),
    privateKey,
  );
  return {
    token: Buffer.concat([signed, signature]).toString("base64url"),
    secret: secret.toString("hex"),
  };
}

const forged = (token) =>
  token.slice(0, -20) + (token.at(-20) === "A" ? "B" : "A") + token.slice(-19);

/** What a script for statistics tells its own server of the page that it is in. */
const ANALYTICS = `
const entries = globalThis.navigation?.entries() ?? [];
const told = [
  location.href,
  document.URL,
  document.referrer,
  document.title,
  history.state,
  document.cookie,
  globalThis.navigation?.currentEntry?.url,
  ...entries.map(({ url }) => url),
  ...performance.getEntries().map(({ name }) => name),
];
const body = JSON.stringify(told);
fetch(new URL("/collect", document.currentScript.src), { method: "POST", mode: "no-cors", body });
`;

/**
 * Runs `use` with a site whose pages load a script of another site, and everything that either
 * server has got.
 */
export async function fragmentSite(context, site, use) {
  const checks = new Checks();
  const database = new Database();
  const { createLinkHandler, toNodeListener } = site.handlerEntry;
  const collected = [];
  const analytics = async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    collected.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)} ${body}`);
    response
      .writeHead(200, { "Content-Type": "text/javascript" })
      .end(request.method === "GET" ? ANALYTICS : "");
  };
  await listening(analytics, async (elsewhere) => {
    const own = `<!doctype html><html lang="en">
<head><script src="${elsewhere}/a.js"></script><title>{{title}}</title></head>
<main><h1>{{title}}</h1><p>{{text}}</p>{{form}}</main>`;
    const handler = createLinkHandler({
      verifier: site.publicEntry.createVerifier({ keys: KEY }),
      store: site.entry.createMemoryStore({ capacity: 1000 }),
      redeem: database.redeem,
      publicKeys: KEY,
      pages: { form: own, done: own.replace("{{form}}", "") },
      policy: { "script-src": elsewhere, "connect-src": elsewhere },
      onError() {},
    });
    await listening(toNodeListener(handler), async (address, asked) => {
      const page = await context.newPage();
      // What a server writes down, and all else but bodies.
      const kept = () => [...asked.map((request) => JSON.stringify(request)), ...collected];
      const open = async (link, selector = "button, h1:visible") => {
        // The same address with another fragment would load nothing.
        await page.goto("about:blank");
        await page.goto(`${address}/activate${link}`);
        await page.waitForSelector(selector);
      };
      const press = () => following(page, () => page.click("button"));
      const heading = () => page.textContent("h1:visible");
      await use({ checks, database, page, address, asked, collected, kept, open, press, heading });
      await page.close();
    });
  });
  return checks.results;
}

/** How many of the texts have a part of the token that tells it from others. */
const having = (texts, token) =>
  texts.filter((text) => text.includes(token.slice(20, 60)) || text.includes(token.slice(-40)));

export function fragments(context, site) {
  return fragmentSite(
    context,
    site,
    async ({ checks, database, page, address, asked, collected, kept, open, press, heading }) => {
      const tokens = [];
      for (const before of ["#", "#token="]) {
        const { token, secret } = newLink();
        tokens.push(token);
        await open(before + token, "button");
        checks.same(`${before} shows the form`, await heading(), "Activate your account");
        checks.same("nothing is in the address", page.url(), `${address}/activate`);
        checks.same("opening uses nothing", database.used.includes(secret), false);
        await press();
        checks.same("its button activates", await heading(), "Your account is active");
        checks.same("the link of the mail", database.used.at(-1), secret);
        await page.goBack();
        checks.same("the history has no token", page.url().includes(token), false);
        await open(before + token, "button");
        await press();
        checks.same("a second time it does not", await heading(), "This link was already used");
      }
      await until("what the stand-in for statistics sends", () =>
        collected.some((text) => text.startsWith("POST")),
      );
      checks.none(
        "logs, referrers, cookies and statistics have no token",
        tokens.flatMap((token) => having(kept(), token)),
      );
      const control = newLink().token;
      await open(`?token=${control}`, "button");
      checks.same("of a link in an address they have it", having(kept(), control).length > 0, true);

      const posts = () => asked.filter(({ method }) => method === "POST").length;
      const before = posts();
      await open(`#${forged(newLink().token)}`);
      checks.same("a forged link is told", await heading(), "This link is not valid");
      await open("");
      checks.same("an address without a token is told", await heading(), "Open the link again");
      checks.same("neither is sent", posts(), before);
      await open("#x");
      checks.same(
        "what is no token of v3 the server judges",
        `${await heading()} ${posts() - before}`,
        "This link is not valid 1",
      );

      const bound = newLink(randomBytes(16));
      await open(`#${bound.token}`, "#browser_code");
      checks.same(
        "a link of another browser asks for its digits",
        await page.locator("#browser_code").count(),
        1,
      );
      checks.none("it is kept nowhere either", having(kept(), bound.token));
    },
  );
}

/** A browser that cannot check leaves it to the server. */
export function withoutEd25519(context, site) {
  return fragmentSite(context, site, async ({ checks, page, open, press, heading }) => {
    await page.addInitScript(() => {
      Object.defineProperty(SubtleCrypto.prototype, "importKey", {
        value: () => Promise.reject(new Error("unknown")),
      });
    });
    await open(`#${newLink().token}`, "button");
    await press();
    checks.same("a genuine link works", await heading(), "Your account is active");
    await open(`#${forged(newLink().token)}`);
    checks.same("a forged one does not", await heading(), "This link is not valid");
  });
}

export function fragmentsWithoutScript(context, site) {
  return fragmentSite(context, site, async ({ checks, page, asked, kept, open, heading }) => {
    const { token } = newLink();
    for (const [width, colorScheme] of LOOKS) {
      await page.setViewportSize({ width, height: 740 });
      await page.emulateMedia({ colorScheme });
      await open(`#${token}`, "h1:visible");
      checks.same("it says what to do", await heading(), "Allow scripts for this page");
    }
    checks.same("nothing is sent", asked.filter(({ method }) => method === "POST").length, 0);
    checks.none("the token is kept nowhere", having(kept(), token));
  });
}

/** The pages that the script decides on, for everybody. */
export function fragmentsForEverybody(context, site) {
  return fragmentSite(context, site, async ({ checks, page, open }) => {
    for (const [name, link] of [
      ["forged", `#${forged(newLink().token)}`],
      ["empty", ""],
    ]) {
      for (const [width, colorScheme] of LOOKS) {
        await page.setViewportSize({ width, height: 740 });
        await page.emulateMedia({ colorScheme });
        await open(link);
        const look = `${name}, ${width} px, ${colorScheme}`;
        checks.none(`${look}: axe finds nothing`, await axe(page));
        checks.same(`${look}: it fits`, await overflow(page), 0);
      }
    }
  });
}
