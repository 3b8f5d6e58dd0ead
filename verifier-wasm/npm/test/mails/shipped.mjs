// What the programs that most people read mails with do not support of the shipped mails, by the
// data of caniemail.com.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { caniemail } from "caniemail";

import { Checks } from "../checks.mjs";
import { configuration, send } from "./program.mjs";

const PROGRAMS = ["apple-mail.*", "gmail.*", "outlook.*", "yahoo.*", "samsung-email.*"];

/** What a mail can be read without, and how it looks then. */
const SPARED = {
  "@media": "it is light where the reader has chosen dark",
  "<body> element": "the tables have the colours, too",
  "<style> element": "it is light where the reader has chosen dark",
  "border-radius": "the button has corners",
  "display:none": "the preheader is shown",
  "height property": "the preheader is hidden all the same",
  overflow: "the preheader is hidden all the same",
  "role attribute": "a screen reader calls it a table",
  "white-space": "a line may end within a time",
  "word-break": "a long link is wider than the page",
};

export async function shipped(parent) {
  const checks = new Checks();
  const preview = join(parent, "preview");
  const file = configuration(parent, 25);
  const { status, said } = await send("--config", file, "--preview", preview);
  if (status !== 0) throw new Error(said);
  const names = readdirSync(preview).filter((name) => /^[a-z]{2}-\w+\.html$/.test(name));
  checks.same("every action in every language", names.length, 48);
  const met = new Set();
  for (const name of names) {
    const html = readFileSync(join(preview, name), "utf8");
    const { issues } = caniemail({ clients: PROGRAMS, html });
    const faults = [];
    for (const [program, unsupported] of issues.errors) {
      for (const { title } of unsupported) {
        met.add(title);
        if (!Object.hasOwn(SPARED, title)) faults.push(`${program} does not support ${title}`);
      }
    }
    checks.none(name, faults);
  }
  checks.none(
    "nothing else is spared",
    Object.keys(SPARED).filter((title) => !met.has(title)),
  );
  return checks.results;
}
