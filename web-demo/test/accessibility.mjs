// Everybody can use the pages: axe, the keyboard alone, a narrow screen, light and dark.

import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

import { following } from "../../verifier-wasm/npm/test/browser/chromium.mjs";
import { LOOKS, overflow } from "../../verifier-wasm/npm/test/browser/looks.mjs";
import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** Looks at every page in both schemes and widths, and leaves a picture of each. */
export async function everyPage({ visitor, demo, pictures }) {
  const checks = new Checks();
  mkdirSync(pictures, { recursive: true });
  const walk = await visitor.register("looked-at");
  const activation = await visitor.follow(walk, "activate");
  const pages = [["activate", activation]];
  const used = await visitor.follow(walk, "activate");
  await visitor.press(used);
  pages.push(["activated", used]);
  await walk.waitForSelector("#status.badge-active");
  const code = await visitor.recover(walk);
  const outage = await visitor.follow(walk, "recover");
  await demo.withoutDatabase(() => visitor.press(outage, code));
  pages.push(["outage", outage]);
  pages.push(["recover", await visitor.follow(walk, "recover")], ["walk-through", walk]);
  const inspector = await visitor.open("/inspector");
  await inspector.waitForSelector("#verdict.verdict-good");
  const token = await inspector.inputValue("#token");
  await inspector.fill("#token", `${token.slice(0, 100)}A${token.slice(101)}`);
  const pipeline = await visitor.open("/pipeline");
  await pipeline.waitForSelector('[data-count="registered"]');
  const refused = await visitor.open("/activate?token=cut");
  const missing = await visitor.open("/nowhere");
  pages.push(
    ["inspector", inspector],
    ["pipeline", pipeline],
    ["refused", refused],
    ["not-found", missing],
  );
  for (const [name, page] of pages) {
    for (const [width, colorScheme] of LOOKS) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      const look = `${name}, ${width} px, ${colorScheme}`;
      await page.screenshot({
        path: join(pictures, `${name}-${width}-${colorScheme}.png`),
        fullPage: true,
      });
      checks.none(`${look}: axe finds nothing`, await violations(page));
      checks.same(`${look}: it fits`, await overflow(page), 0);
    }
    await page.close();
  }
  return checks.results;
}

/**
 * What axe finds on a page; `rules` says which rules do not count. By a function of the driver, so
 * that the policy of the page stays as it is.
 */
export async function violations(page, rules = {}) {
  await page.evaluate((await import("node:fs")).readFileSync(AXE, "utf8"));
  const { violations: found } = await page.evaluate(
    // Without its own copies of style sheets, which the pages' policy forbids it to insert, and
    // without the mails in frames: it runs in none of them, and its calls are complained of.
    (rules) =>
      globalThis.axe.run(document, {
        resultTypes: ["violations"],
        preload: false,
        iframes: false,
        rules,
      }),
    rules,
  );
  return found.map(
    ({ id, impact, nodes }) =>
      `${impact} ${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" ")}`,
  );
}

/** Everything that a mouse can do on the pages. */
export async function byKeyboard({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.open("/");
  const tabOn = async (shown, selector) => {
    for (let presses = 0; presses < 60; presses += 1) {
      await shown.keyboard.press("Tab");
      // Behind the last stop the focus leaves the page, and comes in again at its beginning.
      const unseen = await shown.evaluate(() => {
        const { activeElement } = document;
        // Of a mail the browser itself marks the link.
        if (activeElement === document.body || activeElement instanceof HTMLIFrameElement)
          return false;
        return getComputedStyle(activeElement).outlineStyle === "none";
      });
      if (unseen)
        checks.results.push({ name: "focus", error: `is not seen on the way to ${selector}` });
      if (await shown.evaluate((wanted) => document.activeElement.matches(wanted), selector))
        return;
    }
    throw new Error(`no number of tabs leads to ${selector}`);
  };
  const tab = (selector) => tabOn(page, selector);
  await page.keyboard.press("Tab");
  checks.same(
    "the first tab leads to the content",
    await page.evaluate(() => document.activeElement.className),
    "skip",
  );
  await tab("#email");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("keyboard@example.test");
  await tab("#login");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("keyboard");
  await page.keyboard.press("Enter");
  await visitor.mail(page, "activate");
  await visitor.link(page, "activate");
  await tab("#mails iframe");
  const opened = page.context().waitForEvent("page");
  await page.keyboard.press("Enter");
  const link = await opened;
  await link.waitForSelector("#page-check");
  await link.keyboard.press("Tab");
  await following(link, () => link.keyboard.press("Enter"));
  checks.same(
    "the link's button is the first stop",
    await link.textContent("h1"),
    "Your account is active",
  );
  const [{ status }] = await demo.query(
    "SELECT status::text FROM accounts WHERE login = 'keyboard'",
  );
  checks.same("the account is active", status, "active");
  await recoverByKeyboard({ visitor, demo, checks, page, tabOn });
  await page.bringToFront();
  await tab('input[name="format"]');
  const chosen = () =>
    page.evaluate(() => document.querySelector('input[name="format"]:checked').value);
  const first = await chosen();
  await page.keyboard.press("ArrowDown");
  checks.same("the arrows switch the format", (await chosen()) !== first, true);
  await page.waitForFunction(() =>
    /signed as/.test(document.querySelector("#settings-note").textContent),
  );
  await page.close();
  await link.close();

  const inspector = await visitor.open("/inspector");
  await inspector.waitForSelector("#verdict.verdict-good");
  await tabOn(inspector, "#token");
  await inspector.keyboard.press("End");
  await inspector.keyboard.press("Backspace");
  const verdict = await inspector.textContent("#verdict");
  checks.same("a token is changed in the inspector", verdict, "Refused: ERR_TOKEN_MALFORMED");
  await tabOn(inspector, "#undo");
  await inspector.keyboard.press("Enter");
  checks.same("and changed back", await inspector.textContent("#verdict"), "Genuine and valid");
  await inspector.close();

  const pipeline = await visitor.open("/pipeline");
  await pipeline.waitForSelector('.part-up:has-text("collector")');
  await tabOn(pipeline, "#collector");
  await pipeline.keyboard.press("Enter");
  await pipeline.waitForSelector('.part-stopped:has-text("collector was stopped")');
  checks.same("the collector is killed", demo.has(/mailroom collect /), false);
  // The button stays the same, and so does the focus.
  await pipeline.waitForSelector('#collector:has-text("Start")');
  if (!(await pipeline.evaluate(() => document.activeElement.matches("#collector")))) {
    await tabOn(pipeline, "#collector");
  }
  await pipeline.keyboard.press("Enter");
  await pipeline.waitForSelector('.part-up:has-text("collector")');
  checks.same("and started", demo.has(/mailroom collect /), true);
  await pipeline.close();
  return checks.results;
}

/** From the request over the code to the recovered account. */
async function recoverByKeyboard({ visitor, demo, checks, page, tabOn }) {
  await page.bringToFront();
  await page.waitForSelector("#status.badge-active");
  // The application sends one mail every five seconds at most.
  await page.waitForTimeout(5_500);
  await tabOn(page, '#request button[value="recover"]');
  await page.keyboard.press("Enter");
  await visitor.mail(page, "recover");
  const code = await visitor.code(page);
  await visitor.link(page, "recover");
  await tabOn(page, '#mails li[data-action="recover"] iframe');
  const opened = page.context().waitForEvent("page");
  await page.keyboard.press("Enter");
  const link = await opened;
  await link.waitForSelector("#page-check");
  await tabOn(link, "#code");
  await link.keyboard.type(code);
  await following(link, () => link.keyboard.press("Enter"));
  checks.same(
    "a code is typed and sent",
    await link.textContent("h1"),
    "Your account is recovered",
  );
  const [{ used }] = await demo.query(
    `SELECT count(consumed_at)::int AS used FROM tokens JOIN accounts ON accounts.id = account
    WHERE login = 'keyboard' AND action = 'password_recovery'`,
  );
  checks.same("and the database has used the recovery", used, 1);
  await link.close();
}
