// The handler's pages in Chromium: the whole flow with script and without, by keyboard, and for
// everybody (axe, 360 px, dark).

import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { following } from "../browser/chromium.mjs";
import { lookAt } from "../browser/looks.mjs";
import { Checks } from "../checks.mjs";
import { Database, listening, newLink } from "./server.mjs";

/** Runs `use` with a site of the handler and a new page whose complaints are collected. */
export async function onSite(context, { site, cookies = true, options = {} }, use) {
  const checks = new Checks();
  const database = new Database();
  const { createLinkHandler, toNodeListener } = site.handlerEntry;
  const { createMemoryStore } = site.entry;
  const handler = createLinkHandler({
    verifier: site.verifier,
    store: createMemoryStore({ capacity: 10_000 }),
    redeem: database.redeem,
    onError() {},
    ...options,
  });
  const listener = toNodeListener(handler);
  const answering = (request, response) => {
    const { setHeader } = response;
    response.setHeader = (name, value) =>
      cookies || name !== "Set-Cookie" ? setHeader.call(response, name, value) : response;
    listener(request, response);
  };
  await listening(answering, async (address, asked) => {
    const page = await context.newPage();
    const complaints = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      // That an answer is a refusal, and that it is not framed, Chromium says in its console, too.
      const said = /the server responded with a status|Framing '.*' violates .*frame-ancestors/;
      if (message.type() === "error" && !said.test(message.text())) {
        complaints.push(message.text());
      }
    });
    const open = (token, action) => page.goto(`${address}/${action}?token=${token}`);
    const press = () => following(page, () => page.click("button"));
    const heading = () => page.textContent("h1");
    await use({ checks, database, page, open, press, heading, address, asked });
    checks.none("the pages complain of nothing", complaints);
    await page.close();
  });
  return checks.results;
}

/** From the link in the mail to the account, with script or without. */
export async function wholeFlow(context, site, scripts) {
  return onSite(
    context,
    { site },
    async ({ checks, database, page, open, press, heading, address, asked }) => {
      const { token, secret } = newLink("activate");
      await open(token, "activate");
      await page.waitForURL((url) => !url.href.includes(token));
      checks.same("a link is shown", await heading(), "Activate your account");
      checks.same("the token has left the address", page.url().includes(token), false);
      const there = new URL(page.url());
      checks.same(
        "and is replaced by nothing, or the name of a cookie",
        there.search,
        scripts ? "" : /^\?open=[0-9a-f]+$/,
      );
      checks.same("opening has used nothing", database.used.length, 0);
      const cookies = await page.context().cookies();
      const kept = cookies.filter(({ name }) => name.startsWith("mailroom"));
      checks.same("without script a cookie has it for its minute", kept.length, scripts ? 0 : 1);
      await page.reload();
      checks.same("a reload shows it again", await heading(), "Activate your account");
      await press();
      checks.same("the button activates", await heading(), "Your account is active");
      checks.same("the link of the mail", database.used.join(), secret);
      checks.same("the address of the answer is clean", new URL(page.url()).search, "");
      const left = (await page.context().cookies()).filter(({ name }) =>
        name.startsWith("mailroom"),
      );
      checks.same("no cookie is left", left.length, 0);
      await open(token, "activate");
      await page.waitForURL((url) => !url.href.includes(token));
      await press();
      checks.same("a second time it does not", await heading(), "This link was already used");

      const recovery = newLink("recover");
      await open(recovery.token, "recover");
      await page.waitForURL((url) => !url.href.includes(recovery.token));
      await page.fill("#code", "00000");
      await press();
      checks.same("a wrong code is told", await heading(), "That is not the code");
      await page.fill("#code", "1234");
      const before = asked.length;
      await page.click("button");
      checks.same("a short one is not sent", asked.length, before);
      database.answer = "throws";
      await page.fill("#code", recovery.code);
      await press();
      checks.same("an outage is told", await heading(), "Try again in a moment");
      database.answer = "ok";
      await page.fill("#code", recovery.code);
      await press();
      checks.same(
        "afterwards the right code recovers",
        await heading(),
        "Your account is recovered",
      );

      await open(`x${newLink("activate").token}`, "activate");
      checks.same("a link that is none is told", await heading(), "This link is not valid");
      await open(newLink("activate", -10).token, "activate");
      checks.same("an expired one is told", await heading(), "This link has expired");

      const posts = asked.filter(({ method }) => method === "POST");
      checks.none(
        "every form says where it is from",
        posts.filter(({ headers }) => headers.origin !== address),
      );
      checks.none(
        "no form is sent to an address with a token",
        posts.filter(({ url }) => url.includes("token")),
      );
      const referrers = asked.map(({ headers }) => headers.referer ?? "");
      checks.none(
        "no referrer is more than the site",
        referrers.filter((referrer) => !["", `${address}/`].includes(referrer)),
      );
    },
  );
}

/** What only a browser with script does, and what only one without. */
export async function withScript(context, site) {
  return onSite(context, { site }, async ({ checks, database, page, open, heading, asked }) => {
    const { token } = newLink("activate");
    await open(token, "activate");
    await page.goto("about:blank");
    await page.goBack();
    checks.same("the history has no token", page.url().includes(token), false);
    await open(token, "activate");
    const posts = () => asked.filter(({ method }) => method === "POST").length;
    const before = posts();
    await following(page, () => page.dblclick("button"));
    checks.same("a double click presses once", await heading(), "Your account is active");
    checks.same("and asks once", posts() - before, 1);
    checks.same("and uses once", database.used.length, 1);
    const framed = newLink("activate");
    const address = new URL(page.url()).origin;
    await page.goto("about:blank");
    await page.setContent(`<iframe src="${address}/activate?token=${framed.token}"></iframe>`);
    await page.waitForTimeout(300);
    const text = await page
      .frames()[1]
      ?.evaluate(() => document.body.textContent)
      .catch(() => "");
    checks.same("another page cannot frame it", /Activate/.test(text ?? ""), false);
  });
}

/** As if the browser kept none: no cookie reaches it. */
export async function withoutCookies(context, site) {
  return onSite(context, { site, cookies: false }, async ({ checks, page, open, heading }) => {
    await open(newLink("activate").token, "activate");
    await page.waitForURL(/open=/);
    checks.same(
      "a browser without script and cookies is told what to do",
      await heading(),
      "Open the link again",
    );
  });
}

/** The keyboard alone. */
export async function byKeyboard(context, site) {
  return onSite(context, { site }, async ({ checks, page, open, heading }) => {
    const { token, code } = newLink("recover");
    await open(token, "recover");
    const focused = () =>
      page.evaluate(() => document.activeElement.id || document.activeElement.localName);
    const outlined = () =>
      page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle !== "none");
    await page.keyboard.press("Tab");
    checks.same("the code is the first stop", await focused(), "code");
    checks.same("which is seen", await outlined(), true);
    await page.keyboard.type(code);
    await page.keyboard.press("Tab");
    checks.same("the button is the second", await focused(), "button");
    checks.same("which is seen, too", await outlined(), true);
    await following(page, () => page.keyboard.press("Enter"));
    checks.same("Enter presses it", await heading(), "Your account is recovered");
  });
}

/** Every page, narrow and wide, light and dark, in a short and a long language. */
export async function forEverybody(context, site, pictures) {
  mkdirSync(pictures, { recursive: true });
  return onSite(context, { site }, async ({ checks, database, page, open, press, address }) => {
    const look = async (name) => {
      await lookAt(page, checks, name, { isTranslated: !name.endsWith("-en") });
      await page.setViewportSize({ width: 360, height: 740 });
      await page.emulateMedia({ colorScheme: "dark" });
      await page.screenshot({ path: join(pictures, `link-${name}.png`) });
      const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      checks.same(`${name} is dark where the system is`, back, "rgb(22, 25, 29)");
    };
    for (const language of ["en", "de"]) {
      await page.setExtraHTTPHeaders({ "Accept-Language": language });
      const of = (name) => `${name}-${language}`;
      const { token } = newLink("activate");
      await open(token, "activate");
      await look(of("activate"));
      database.answer = "away";
      await press();
      await look(of("away"));
      database.answer = "not_eligible";
      await press();
      await look(of("ineligible"));
      database.answer = "ok";
      await open(token, "activate");
      await press();
      await look(of("done"));
      await open(token, "activate");
      await press();
      await look(of("used"));
      const recovery = newLink("recover");
      await open(recovery.token, "recover");
      await look(of("recover"));
      for (let guess = 0; guess < 6; guess += 1) {
        await page.fill("#code", "00000");
        await press();
        if (guess === 0) await look(of("wrong-code"));
      }
      await look(of("locked"));
      database.answer = "wrong_code";
      await open(newLink("activate", 3600, randomBytes(16)).token, "activate");
      await look(of("elsewhere"));
      for (let guess = 0; guess < 4; guess += 1) {
        await page.fill("#browser_code", "00000");
        await press();
      }
      await look(of("locked-elsewhere"));
      database.answer = "ok";
      await open("x", "activate");
      await look(of("invalid"));
      await open(newLink("activate", -10).token, "activate");
      await look(of("expired"));
      await page.goto(`${address}/activate`);
      await look(of("error"));
      await page.goto(`${address}/activate?open=${"0".repeat(32)}`);
      await look(of("blocked"));
      database.answer = "wrong_code";
      await open(newLink("activate").token, "activate");
      await press();
      await look(of("failure"));
      await open(newLink("recover", 3600, randomBytes(16)).token, "recover");
      await look(of("elsewhere-with-code"));
      await page.fill("#code", "00000");
      await page.fill("#browser_code", "00000");
      await press();
      await look(of("wrong-codes"));
      database.answer = "ok";
    }
  });
}
