// Mails beside the package: templates that react-email and MJML have made, by the page of the book,
// and what programs that show mails make of the shipped ones: `node main.mjs FOLDER`.
//
// MAILROOM_TEST_PROGRAM is the program.

import { mkdirSync, rmSync } from "node:fs";
import { resolve } from "node:path";

import { Report } from "../runtimes/report.mjs";
import { elsewhere } from "./elsewhere.mjs";
import { shipped } from "./shipped.mjs";

const folder = resolve(process.argv[2] ?? "");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const report = new Report();
await report.run("templates of react-email and MJML", () => elsewhere(folder));
await report.run("shipped mails in programs of mail", () => shipped(folder));
report.end();
