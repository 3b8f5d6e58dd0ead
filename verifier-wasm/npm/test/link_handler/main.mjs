// The handler of the packed package: `node main.mjs TARBALL FOLDER [WORDS]`, WORDS choosing runs by
// their titles. FOLDER is made anew, and the package installed into it. Its behaviour on requests
// is tested on every runtime (runtimes/suite/handler.mjs); here are Node's own requests,
// Chromium, and the applications that the README shows.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { withBrowsers, withChromium } from "../browser/chromium.mjs";
import { addFrameworks } from "../handlers/sites.mjs";
import { install } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { byKeyboard, forEverybody, wholeFlow, withoutCookies, withScript } from "./browser.mjs";
import {
  fragments,
  fragmentsForEverybody,
  fragmentsWithoutScript,
  withoutEd25519,
} from "./fragment.mjs";
import { lines, sites } from "./frameworks.mjs";
import { judgedSites } from "./judged.mjs";
import { damaged, keptBehindHash, keptByPages, reloadedWithoutScript } from "./keeping.mjs";
import { nodeRequests } from "./node.mjs";
import { busyButton, siteForEverybody } from "./site.mjs";
import {
  elsewhere,
  newPassword,
  passwordByKeyboard,
  passwordForEverybody,
  reloaded,
} from "./password.mjs";
import { askedByAnotherSite, scanners } from "./scanner.mjs";
import { sentAgain, typedCodes } from "./pressing.mjs";
import { redirects, redirectsOfFramework } from "./redirects.mjs";
import { key } from "./server.mjs";

const [tarball, folder, only = ""] = process.argv.slice(2);
const installed = install(folder, tarball);
addFrameworks(folder);
const { resolve } = createRequire(join(folder, "package.json"));
const load = (name) => import(pathToFileURL(resolve(name)));
const entry = await load("mailroom-verifier");
const handlerEntry = await load("mailroom-verifier/handler");
const publicEntry = await load("mailroom-verifier/public");
const document = ["README.md", "REFERENCE.md"]
  .map((name) => readFileSync(join(installed, name), "utf8"))
  .join("\n");
const site = {
  entry,
  handlerEntry,
  publicEntry,
  verifier: entry.createVerifier({ keys: key }),
  document,
  folder,
};

const report = new Report();
const run = async (title, work) => {
  if (title.includes(only)) await report.run(title, work);
};
/** The same in a browser, which begins each run with no cookie and no page of another one. */
const runIn = (context) => {
  const [first] = context.pages();
  return (title, work) =>
    run(title, async () => {
      await context.clearCookies();
      for (const page of context.pages()) if (page !== first) await page.close();
      return work();
    });
};
await run("what the README asks for", () => lines(document));
await run("requests of Node", () => nodeRequests(site));
const browser = programs.chromium();
if (browser === undefined) {
  report.missing(
    "the handler in Chromium",
    "neither chromium nor google-chrome is in PATH; install one of them",
  );
} else {
  await withBrowsers(browser, (browsers) =>
    run("a scanner, and then the owners", () => scanners(browsers, site)),
  );
  const anyCertificate = { ignoreHTTPSErrors: true };
  await withChromium(
    browser,
    (context) => run("redirects", () => redirects(context, { site, folder, scripts: true })),
    anyCertificate,
  );
  await withChromium(
    browser,
    (context) =>
      run("redirects, without script", () => redirects(context, { site, folder, scripts: false })),
    { ...anyCertificate, javaScriptEnabled: false },
  );
  await withChromium(browser, async (context) => {
    const run = runIn(context);
    await run("with script", () => wholeFlow(context, site, true));
    await run("what script adds", () => withScript(context, site));
    await run("what a field for a code takes", () => typedCodes(context, site));
    await run("forms that are sent again", () => sentAgain(context, site));
    await run("another site that asks for a link", () => askedByAnotherSite(context, site));
    await run("damaged links", () => damaged(context, site));
    await run("what pages keep", () => keptByPages(context, site));
    await run("what pages keep behind #", () => keptBehindHash(context, site));
    await run("tokens behind #", () => fragments(context, site));
    await run("tokens behind #, without Ed25519", () => withoutEd25519(context, site));
    await run("tokens behind #, for everybody", () => fragmentsForEverybody(context, site));
    await run("redirects of a framework", () => redirectsOfFramework(context, site));
    await run("by keyboard", () => byKeyboard(context, site));
    await run("a button that is busy", () => busyButton(context, site));
    await run("pages of a site, for everybody", () =>
      siteForEverybody(context, site, join(folder, "pictures")),
    );
    await run("a new password, with script", () => newPassword(context, site, true));
    await run("a new password, elsewhere", () => elsewhere(context, site));
    await run("a new password, by keyboard", () => passwordByKeyboard(context, site));
    await run("a new password, for everybody", () =>
      passwordForEverybody(context, site, join(folder, "pictures")),
    );
    for (const [name, work] of sites(document, folder, context)) await run(`on ${name}`, work);
    for (const [name, work] of judgedSites(folder, context))
      await run(`judged, rendered by ${name}`, work);
    await run("for everybody", () => forEverybody(context, site, join(folder, "pictures")));
  });
  await withChromium(
    browser,
    async (context) => {
      const run = runIn(context);
      await run("without script", () => wholeFlow(context, site, false));
      await run("a new password, without script", () => newPassword(context, site, false));
      await run("a new password, reloaded without script", () => reloaded(context, site));
      await run("a wrong code, reloaded without script", () =>
        reloadedWithoutScript(context, site),
      );
      await run("tokens behind #, without script", () => fragmentsWithoutScript(context, site));
      await run("without script and cookies", () => withoutCookies(context, site));
    },
    { javaScriptEnabled: false },
  );
}
report.end();
