// `mailroom dev`, as a developer and a browser test use it: `node main.mjs TARBALL FOLDER`. FOLDER
// is made anew, and the package installed into it.
//
// MAILROOM_TEST_PROGRAM is the program, MAILROOM_DATABASE_URL an empty database.

import { createRequire } from "node:module";
import { join } from "node:path";

import { withChromium } from "../browser/chromium.mjs";
import { install } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";
import { application } from "./application.mjs";
import { inboxOf } from "./inbox.mjs";
import { page } from "./page.mjs";
import { registration } from "./registration.mjs";

const [tarball, folder] = process.argv.slice(2);
install(folder, tarball);
const require = createRequire(join(folder, "package.json"));
const load = (entry) => require(join("mailroom-verifier", entry));

const report = new Report();
const browser = programs.chromium();
if (browser === undefined) {
  report.missing("mailroom dev", "neither chromium nor google-chrome is in PATH; install one");
} else {
  await application(load, async (site) => {
    const inbox = await inboxOf(folder, site.address);
    await site.prepare(inbox.variables.MAILROOM_SECRET_KEY);
    await report.run("the browser test of the document", () =>
      registration(folder, { browser, site, inbox }),
    );
    await withChromium(browser, (context) =>
      report.run("the page", () => page(context, { site, inbox, pictures: join(folder, "pages") })),
    );
    await inbox.end();
  });
}
report.end();
