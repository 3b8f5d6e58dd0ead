// The web demonstration in a real browser: `node main.mjs FOLDER`. FOLDER gets the pictures.

import { existsSync } from "node:fs";
import { join } from "node:path";

import { withChromium } from "../browser/chromium.mjs";
import { chromium, version, workerd } from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { byKeyboard, everyPage } from "./accessibility.mjs";
import { badLinks, badRegistrations } from "./bad_input.mjs";
import { Demo } from "./demo.mjs";
import { edgeAlone } from "./edge.mjs";
import { end, leaks } from "./ending.mjs";
import { openShortLived, pressTooLate } from "./expiry.mjs";
import { fragments } from "./fragments.mjs";
import { inspecting } from "./inspector.mjs";
import { invitations } from "./invitations.mjs";
import { linksOf } from "./links.mjs";
import { mailsAsTheyAre } from "./mails.mjs";
import {
  beginsWithoutTheInbox,
  outages,
  recoveringInAnOutage,
  rowThatIsHeld,
  standingStill,
  staysKilled,
} from "./outages.mjs";
import { pipeline } from "./pipeline.mjs";
import { failsToStart, passwords } from "./roles.mjs";
import { services } from "./services.mjs";
import { previews } from "./previews.mjs";
import { addressFirst, otherPage, suspended } from "./strangers.mjs";
import { twoTabs } from "./tabs.mjs";
import { Visitor } from "./visitor.mjs";

const [folder, only] = process.argv.slice(2);
const program = join(process.env.MAILROOM_DEMO_SITE, "node/stage.js");
const report = new Report();
const alone = { folder, site: process.env.MAILROOM_DEMO_SITE, mailroom: process.env.MAILROOM_TEST_PROGRAM };
const chosen = (title) => only === undefined || title.includes(only);
if (workerd() === undefined) report.missing("the edge alone", "npm has no workerd for this machine");
else if (chosen("the edge alone")) await report.run("the edge alone", () => edgeAlone(alone));
if (chosen("the services alone")) await report.run("the services alone", () => services(alone));
if (chosen("a start that fails")) await report.run("a start that fails", () => failsToStart(program));
const browser = chromium();
if (browser === undefined) {
  report.missing("the web demonstration", "neither chromium nor google-chrome is in PATH; install one of them");
} else {
  if (chosen("the preview of the mails")) {
    await withChromium(browser, (context) => report.run("the preview of the mails", () => previews(context, alone)));
  }
  const demo = await Demo.start(program);
  console.log(`${demo.address}, in Chromium ${version(browser)}`);
  await withChromium(browser, async (context) => {
    const visitor = new Visitor(context, demo.address);
    const scene = { visitor, demo, pictures: join(folder, "pictures") };
    const late = await openShortLived(scene);
    const run = async (title, work) => {
      if (!chosen(title)) return;
      await report.run(title, work);
      // A run that failed leaves its pages open, each of which holds a connection.
      await visitor.closeAllBut([late.page, late.link]);
    };
    await run("a link of v3", () => linksOf("v3", scene));
    await run("a link of v2", () => linksOf("v2", scene));
    await run("a link of v1", () => linksOf("v1", scene));
    const reset = await visitor.open("/");
    await visitor.set(reset, "format", "v3");
    await reset.close();
    await run("the mails", () => mailsAsTheyAre(scene));
    await run("an invitation", () => invitations(scene));
    if (existsSync("/proc/self/environ")) await run("the roles", () => passwords(scene));
    await run("two tabs", () => twoTabs(scene));
    await run("a suspended account", () => suspended(scene));
    await run("the page of the other action", () => otherPage(scene));
    await run("the token in the address", () => addressFirst(scene));
    await run("the token behind #", () => fragments(scene));
    await run("a link that expires", () => pressTooLate(late, scene));
    await run("the inspector", () => inspecting(scene));
    await run("by keyboard", () => byKeyboard(scene));
    await run("bad registrations", () => badRegistrations(scene));
    await run("bad links", () => badLinks(scene));
    await run("the pipeline", () => pipeline(scene));
    await run("every page for everybody", () => everyPage(scene));
    await run("parts that die", () => outages(scene));
    await run("parts that stand still", () => standingStill(scene));
    await run("a row that is held", () => rowThatIsHeld(scene));
    await run("recovering in an outage", () => recoveringInAnOutage(scene));
    await run("a collector that is killed while it is down", () => staysKilled(scene));
    await run("a page without the inbox", () => beginsWithoutTheInbox(scene));
    await run("what is left in logs", () => leaks(scene));
  });
  await report.run("Ctrl-C", () => end(demo));
}
report.end();
