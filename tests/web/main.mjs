// The web demonstration in a real browser: `node main.mjs PROGRAM FOLDER`. PROGRAM is `mailroom-demo`, which finds what it
// runs by variables; FOLDER gets the pictures.

import { join } from "node:path";

import { withChromium } from "../browser/chromium.mjs";
import { chromium, version } from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { byKeyboard, everyPage } from "./accessibility.mjs";
import { badLinks, badRegistrations } from "./bad_input.mjs";
import { Demo } from "./demo.mjs";
import { end, leaks } from "./ending.mjs";
import { openShortLived, pressTooLate } from "./expiry.mjs";
import { inspecting } from "./inspector.mjs";
import { linksOf } from "./links.mjs";
import { outages } from "./outages.mjs";
import { pipeline } from "./pipeline.mjs";
import { twoTabs } from "./tabs.mjs";
import { Visitor } from "./visitor.mjs";

const [program, folder, only] = process.argv.slice(2);
const report = new Report();
const browser = chromium();
if (browser === undefined) {
  report.missing("the web demonstration", "neither chromium nor google-chrome is in PATH; install one of them");
} else {
  const demo = await Demo.start(program);
  console.log(`${demo.address}, in Chromium ${version(browser)}`);
  await withChromium(browser, folder, async (context) => {
    const visitor = new Visitor(context, demo.address);
    const scene = { visitor, demo, pictures: join(folder, "pictures") };
    const late = await openShortLived(scene);
    const run = async (title, work) => {
      if (only !== undefined && !title.includes(only)) return;
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
    await run("two tabs", () => twoTabs(scene));
    await run("a link that expires", () => pressTooLate(late, scene));
    await run("the inspector", () => inspecting(scene));
    await run("by keyboard", () => byKeyboard(scene));
    await run("bad registrations", () => badRegistrations(scene));
    await run("bad links", () => badLinks(scene));
    await run("the pipeline", () => pipeline(scene));
    await run("every page for everybody", () => everyPage(scene));
    await run("parts that die", () => outages(scene));
    await run("what is left in logs", () => leaks(scene));
  });
  await report.run("Ctrl-C", () => end(demo));
}
report.end();
