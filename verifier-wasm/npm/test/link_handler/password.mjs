// The page for a new password in Chromium: with script and without, by keyboard, pasted, in another
// browser than that which asked for the link, and for everybody.

import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";

import { following } from "../browser/chromium.mjs";
import { lookAt } from "../browser/looks.mjs";
import { BUTTONS } from "../runtimes/suite/handler_languages.mjs";
import { onSite } from "./browser.mjs";
import { newLink } from "./server.mjs";

const LONG = "correct horse battery";

/** An application that remembers which passwords it was given. */
function application() {
  const given = [];
  const used = new Set();
  return {
    given,
    options: {
      password: { actions: ["recover", "activate"] },
      redeem({ secret, fields }) {
        const name = Buffer.from(secret).toString("hex");
        if (used.has(name)) return "used";
        used.add(name);
        given.push(fields.get("password"));
        return "ok";
      },
    },
  };
}

/** From the link in the mail to the new password, with script or without. */
export function newPassword(context, site, scripts) {
  const { given, options } = application();
  return onSite(
    context,
    { site, options },
    async ({ checks, page, open, press, heading, asked }) => {
      const { token, code } = newLink("recover");
      await open(token, "recover");
      await page.waitForURL((url) => !url.href.includes(token));
      const box = page.locator("#password-show");
      checks.same("the box that shows it needs script", await box.isVisible(), scripts);
      await page.fill("#code", code);
      await page.fill("#password", "short");
      const before = asked.length;
      await page.click("button");
      checks.same("a short one is not sent", asked.length, before);
      // Sixteen units of UTF-16, which the browser counts, and eight characters.
      await page.fill("#password", "😀".repeat(8));
      await press();
      checks.same(
        "what the browser lets through, the server judges",
        await heading(),
        "Choose another password",
      );
      checks.same("the field is empty again", await page.inputValue("#password"), "");
      checks.same("as that of the code", await page.inputValue("#code"), "");
      if (scripts) {
        await page.reload();
        // The page asks for it anew.
        await page.waitForSelector("#password");
        checks.same("a reload shows the form", await page.isVisible("#password"), true);
      }
      await page.fill("#code", "00000");
      await page.fill("#password", LONG);
      if (scripts) {
        await box.check();
        checks.same("the box shows it", await page.getAttribute("#password", "type"), "text");
        await box.uncheck();
        checks.same("and hides it", await page.getAttribute("#password", "type"), "password");
        await box.check();
        await page.evaluate(() =>
          addEventListener("submit", () => {
            globalThis.name = document.querySelector("#password").type;
          }),
        );
      }
      await press();
      if (scripts) {
        const sent = await page.evaluate(() => globalThis.name);
        checks.same("it is hidden when it is sent", sent, "password");
      }
      checks.same("a wrong code is told", await heading(), "That is not the code");
      checks.same("the password is not reflected", (await page.content()).includes(LONG), false);
      await page.fill("#code", code);
      await page.focus("#password");
      if (scripts) {
        await context.grantPermissions(["clipboard-read", "clipboard-write"]);
        await page.evaluate((text) => navigator.clipboard.writeText(text), LONG);
        await page.keyboard.press("Control+V");
      } else {
        await page.keyboard.insertText(LONG);
      }
      checks.same("it is pasted whole", await page.inputValue("#password"), LONG);
      await press();
      checks.same("the right one sets the password", await heading(), "Your account is recovered");
      checks.same("which the application gets once", given.join("|"), LONG);
      checks.none(
        "no address and no header has it",
        asked.filter((request) => JSON.stringify(request).includes("horse")),
      );
    },
  );
}

/** A reload without script: the cookie has the link, and nothing has the password. */
export function reloaded(context, site) {
  const { given, options } = application();
  return onSite(context, { site, options }, async ({ checks, page, open, press, heading }) => {
    const { token, code } = newLink("recover");
    await open(token, "recover");
    await page.waitForURL(/open=/);
    await page.fill("#password", LONG);
    await page.reload();
    checks.same("a reload shows the form", await page.isVisible("#password"), true);
    await page.fill("#code", code);
    await page.fill("#password", LONG);
    await press();
    checks.same("which sets the password", await heading(), "Your account is recovered");
    checks.same("once", given.length, 1);
  });
}

/** In another browser than that which asked for the link. */
export function elsewhere(context, site) {
  const { given, options } = application();
  return onSite(context, { site, options }, async ({ checks, page, open, press, heading }) => {
    for (const [action, fields] of [
      ["recover", ["code", "browser_code", "password"]],
      ["activate", ["browser_code", "password"]],
    ]) {
      const { token } = newLink(action, 3600, randomBytes(16));
      await open(token, action);
      await page.waitForURL((url) => !url.href.includes(token));
      const shown = await page
        .locator("input[name]:not([type=hidden])")
        .evaluateAll((inputs) => inputs.map(({ name }) => name));
      checks.same(`${action}: the fields`, shown.join(), fields.join());
      for (const name of fields) await page.fill(`#${name}`, "31943");
      await page.fill("#password", "😀".repeat(9));
      await press();
      checks.same(`${action}: a short one is told`, await heading(), "Choose another password");
      for (const name of fields) await page.fill(`#${name}`, "31943");
      await page.fill("#password", LONG);
      await press();
      checks.same(`${action}: a long one goes on`, given.length, fields.length === 3 ? 1 : 2);
    }
  });
}

/** The keyboard alone. */
export function passwordByKeyboard(context, site) {
  const { given, options } = application();
  return onSite(context, { site, options }, async ({ checks, page, open, heading }) => {
    const { token, code } = newLink("recover");
    await open(token, "recover");
    const stops = [];
    for (const typed of [code, LONG, " ", ""]) {
      await page.keyboard.press("Tab");
      stops.push(
        await page.evaluate(() => document.activeElement.id || document.activeElement.localName),
      );
      const outline = await page.evaluate(
        () => getComputedStyle(document.activeElement).outlineStyle,
      );
      checks.same(`${stops.at(-1)} is seen`, outline !== "none", true);
      if (typed === " ") await page.keyboard.press("Space");
      else await page.keyboard.type(typed);
    }
    checks.same("the stops", stops.join(), "code,password,password-show,button");
    checks.same("a blank shows it", await page.getAttribute("#password", "type"), "text");
    await following(page, () => page.keyboard.press("Enter"));
    checks.same("Enter sends it", await heading(), "Your account is recovered");
    checks.same("as it was typed", given.join(), LONG);
  });
}

/** Narrow and wide, light and dark, in each language. */
export function passwordForEverybody(context, site, pictures) {
  mkdirSync(pictures, { recursive: true });
  const { options } = application();
  return onSite(context, { site, options }, async ({ checks, page, open, press }) => {
    const look = (name) =>
      lookAt(page, checks, name, { pictures, isTranslated: !name.endsWith("-en") });
    for (const language of Object.keys(BUTTONS)) {
      await page.setExtraHTTPHeaders({ "Accept-Language": language });
      const { token, code } = newLink("recover");
      await open(token, "recover");
      await look(`password-${language}`);
      await page.fill("#code", code);
      await page.fill("#password", "😀".repeat(9));
      await press();
      await look(`password-short-${language}`);
    }
    await page.setExtraHTTPHeaders({ "Accept-Language": "en" });
  });
}
