// Bound links in Chromium: a scanner that does whatever a page lets it do, and afterwards the
// persons, in the browser that asked for the link or on another device.

import { randomInt } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { following } from "../browser/chromium.mjs";
import { FULL } from "../runtimes/scope.mjs";
import { write } from "../runtimes/consumer.mjs";
import { Checks } from "../checks.mjs";
import { PATIENCE } from "../waiting.mjs";
import { files, withoutTypes } from "../readme/document.mjs";
import { listening, newLink } from "./server.mjs";

const LINKS = FULL ? 1000 : 10;
const GUESSES = ["00000", "11111", "12345", "54321", "99999"];
/** So many are at work at once. */
const LANES = 2;

/**
 * Rows with a code and a binding, judged as `mailroom.redeem` judges those
 * of an action without a code.
 */
class Rows {
  #rows = new Map();
  #codes = new Map();

  insert(binding) {
    const { token, secret } = newLink("activate", 3600, binding);
    let code;
    do code = String(randomInt(100_000)).padStart(5, "0");
    while (GUESSES.includes(code) || this.#codes.has(code));
    const row = { token, code, isUsed: false, asked: 0 };
    this.#rows.set(secret, row);
    this.#codes.set(code, row);
    return row;
  }

  redeem = async ({ secret, browserCode, bindingIsProven }) => {
    const row = this.#rows.get(Buffer.from(secret).toString("hex"));
    row.asked += 1;
    if (row.isUsed) return "used";
    if (!bindingIsProven && browserCode !== row.code) return "wrong_code";
    row.isUsed = true;
    return "ok";
  };

  /**
   * No two rows have the same code here, so that the page that shows it tells
   * which row it is about.
   */
  ofCode(code) {
    return this.#codes.get(code);
  }

  get all() {
    return [...this.#rows.values()];
  }
}

/** A site whose page for asking is the program of the REFERENCE. */
async function onSite({ entry, handlerEntry, verifier, document, folder }, use) {
  const place = join(folder, "asking");
  mkdirSync(place, { recursive: true });
  write(place, "ask.js", withoutTypes(files(document)["ask.ts"]));
  write(
    place,
    "accounts.js",
    "export const requestLink = (form, binding) => globalThis.rows.insert(binding).code;\n",
  );
  const { ask } = await import(pathToFileURL(join(place, "ask.js")));
  const rows = new Rows();
  globalThis.rows = rows;
  const { createLinkHandler, toNodeListener } = handlerEntry;
  const store = entry.createMemoryStore({ capacity: 100 * LINKS });
  const links = toNodeListener(createLinkHandler({ verifier, store, redeem: rows.redeem }));
  const asking = toNodeListener(ask);
  const listener = (request, response) => {
    if (request.url === "/favicon.ico") response.writeHead(204).end();
    else (request.url === "/" ? asking : links)(request, response);
  };
  return listening(listener, (address) => use({ rows, address }));
}

/**
 * Does `work` with every item, a few at once, each as a new browser: with no cookie but those that
 * it is given. Says how far it is.
 *
 * @param {string} what is done
 * @param {object} settings of the browsers
 * @param {(open: (cookies?: object[]) => Promise<import("playwright-core").Page>, item,
 *   index: number) => Promise<void>} work
 */
async function inBrowsers(browser, what, settings, items, work) {
  const waiting = items.entries();
  const lane = async () => {
    const context = await browser.newContext(settings);
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    for (const [index, item] of waiting) {
      await work(
        async (cookies = []) => {
          await context.clearCookies();
          await context.addCookies(cookies);
          return page;
        },
        item,
        index,
      );
      if (index % 100 === 99) console.log(`${what}: ${index + 1} of ${items.length} links`);
    }
    await context.close();
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/**
 * Types a code, if there is one, and presses. In one call, and without the driver's wait for a
 * button that stands still: there are many.
 */
const press = (page, code) =>
  following(page, () =>
    page.evaluate((code) => {
      if (code !== undefined) document.querySelector("#browser_code").value = code;
      document.querySelector("button").click();
    }, code),
  );

/**
 * Opens a link, runs what is in the page, and waits; then presses every button, submits every form,
 * and guesses five codes.
 */
async function scan(page, url) {
  await page.goto(url);
  await page.waitForTimeout(50);
  const submitting = () => {
    for (const button of document.querySelectorAll("button")) button.click();
    for (const form of document.forms) form.submit();
  };
  await following(page, () => page.evaluate(submitting));
  for (const guess of GUESSES) {
    if ((await page.$("#browser_code")) === null) await page.goto(url);
    await press(page, guess);
  }
}

export async function scanners(browser, site) {
  const checks = new Checks();
  await onSite(site, async ({ rows, address }) => {
    const urlOf = ({ token }) => `${address}/activate?token=${token}`;
    const owners = [];
    await inBrowsers(browser, "asking", {}, Array.from({ length: LINKS }), async (open) => {
      const page = await open();
      if (page.url() === "about:blank") await page.goto(address);
      const asking = () =>
        fetch("/", { method: "POST", body: new FormData() }).then((answer) => answer.text());
      const [code] = /[0-9]{5}/.exec(await page.evaluate(asking));
      owners.push({ row: rows.ofCode(code), cookies: await page.context().cookies() });
    });
    checks.same(
      "browsers that asked",
      new Set(owners.map(({ cookies: [{ value }] }) => value)).size,
      LINKS,
    );
    await inBrowsers(browser, "scanning", {}, owners, async (open, { row }) =>
      scan(await open(), urlOf(row)),
    );
    checks.same(
      `of ${LINKS} links a scanner uses`,
      rows.all.filter(({ isUsed }) => isUsed).length,
      0,
    );
    checks.none(
      "of its guesses those on each link that are judged, if not three",
      rows.all.filter(({ asked }) => asked !== 3).map(({ asked }) => String(asked)),
    );
    const found = new Map();
    const arrive =
      (scripts) =>
      async (open, { row, cookies }, index) => {
        const isElsewhere = index % 2 === 1;
        const page = await open(isElsewhere ? [] : cookies);
        await page.goto(urlOf(row));
        await page.waitForURL((url) => !url.href.includes(row.token));
        await page.locator("button").waitFor({ state: "attached" });
        const fields = await page.locator("#browser_code").count();
        if (scripts) await press(page, isElsewhere ? row.code : undefined);
        else {
          if (isElsewhere) await page.fill("#browser_code", row.code);
          await following(page, () => page.click("button"));
        }
        const browser = isElsewhere ? "elsewhere" : "same";
        const how = `${browser} ${fields} ${await page.textContent("h1")}`;
        found.set(how, (found.get(how) ?? 0) + 1);
      };
    const some = 2 * Math.ceil(LINKS / 10);
    await inBrowsers(
      browser,
      "owners without scripts",
      { javaScriptEnabled: false },
      owners.slice(0, some),
      arrive(false),
    );
    await inBrowsers(browser, "owners", {}, owners.slice(some), arrive(true));
    const half = LINKS / 2;
    checks.same(
      "owners with one click in the same browser",
      found.get("same 0 Your account is active"),
      half,
    );
    checks.same(
      "with the digits on another device",
      found.get("elsewhere 1 Your account is active"),
      half,
    );
    checks.same("links that are used", rows.all.filter(({ isUsed }) => isUsed).length, LINKS);
  });
  return checks.results;
}

/** A page of another site asks for a link in the name of the visitor, by a form that it submits. */
export async function askedByAnotherSite(context, site) {
  const checks = new Checks();
  await onSite(site, async ({ rows, address }) => {
    const page = await context.newPage();
    await page.goto(address);
    const asking = () =>
      fetch("/", { method: "POST", body: new FormData() }).then((answer) => answer.text());
    const [code] = /[0-9]{5}/.exec(await page.evaluate(asking));
    const nonces = async () => (await context.cookies(address)).map(({ value }) => value).join();
    const before = await nonces();
    const field = `<input name="email" value="mallory@evil.example">`;
    const form = `<!doctype html><form method="post" action="${address}/">${field}`;
    const other = (_, response) =>
      response
        .writeHead(200, { "Content-Type": "text/html" })
        .end(`${form}</form><script>document.forms[0].submit()</script>`);
    await listening(other, async (elsewhere) => {
      const answered = page.waitForResponse((response) => response.request().method() === "POST");
      await page.goto(elsewhere.replace("127.0.0.1", "localhost"));
      checks.same("the form of another site is refused", (await answered).status(), 403);
    });
    await page.waitForURL(`${address}/`);
    checks.same("it makes no link", rows.all.length, 1);
    checks.same("the visitor's cookie stays", await nonces(), before);
    await page.goto(`${address}/activate?token=${rows.ofCode(code).token}`);
    await press(page);
    checks.same("so does the waiting link", await page.textContent("h1"), "Your account is active");
    await page.close();
  });
  return checks.results;
}
