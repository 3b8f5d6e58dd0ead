// Pages with the name, the logo and the colour of their site, and a button that shows it is busy.

import { mkdirSync } from "node:fs";

import { lookAt } from "../browser/looks.mjs";
import { onSite } from "./browser.mjs";
import { newLink } from "./server.mjs";

const SITE = {
  name: "Compilers and Sons",
  logo: "/logo.svg",
  // Neither black nor white text could be read on it, were it not darkened.
  color: "#ffcc00",
  signIn: "/login",
  newLink: { activate: "/again", recover: "/forgot" },
};

const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="32" height="32">
<circle cx="16" cy="16" r="16" fill="#fc0"/></svg>`;

/** When a form is sent its button says so. */
export function busyButton(context, site) {
  return onSite(context, { site }, async ({ checks, page, open, press, heading }) => {
    await open(newLink("activate").token, "activate");
    const button = page.locator("button");
    checks.same("at first it is not", await button.getAttribute("aria-busy"), null);
    // The name of a window outlives the page.
    await page.evaluate(() =>
      addEventListener("submit", () => {
        const button = document.querySelector("button");
        const { animationName } = getComputedStyle(button, "::after");
        globalThis.name = `${button.getAttribute("aria-busy")} ${animationName}`;
      }),
    );
    await press();
    checks.same("it is sent", await heading(), "Your account is active");
    const sent = await page.evaluate(() => globalThis.name);
    checks.same("with a sign that moves", sent, "true turn");
  });
}

/** Narrow and wide, light and dark. */
export function siteForEverybody(context, site, pictures) {
  mkdirSync(pictures, { recursive: true });
  return onSite(
    context,
    { site, options: { site: SITE } },
    async ({ checks, page, open, press, address }) => {
      let loaded = 0;
      await page.route("**/logo.svg", (route) => {
        loaded += 1;
        return route.fulfill({ contentType: "image/svg+xml", body: LOGO });
      });
      const look = (name) => lookAt(page, checks, name, { pictures });
      const { token } = newLink("activate");
      await open(token, "activate");
      await look("site-form");
      checks.same("the policy lets the logo through", loaded > 0, true);
      const seen = await page.locator("img").evaluate(({ naturalWidth }) => naturalWidth);
      checks.same("which is seen", seen, 32);
      await press();
      await look("site-done");
      await open(token, "activate");
      await press();
      await look("site-used");
      const links = () =>
        page.locator("a").evaluateAll((all) => all.map(({ pathname }) => pathname).join());
      checks.same("a used link leads on", await links(), "/again,/login");
      await open(newLink("recover", -10).token, "recover");
      await look("site-expired");
      checks.same("an expired one too", await links(), "/forgot,/login");
      await page.goto(`${address}/activate`);
      await look("site-error");
    },
  );
}
