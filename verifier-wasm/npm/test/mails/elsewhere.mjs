// docs/guides/other-templates.md, followed: its files are written and its commands run, except that
// packages are installed already.

import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { SMTPServer } from "smtp-server";

import { Checks } from "../checks.mjs";
import { configuration, run, send } from "./program.mjs";

const DOCUMENT = new URL("../../../../docs/guides/other-templates.md", import.meta.url);
const PACKAGES = fileURLToPath(new URL("node_modules", import.meta.url));

/** The fenced blocks of the page. */
function blocks() {
  const found = readFileSync(DOCUMENT, "utf8").matchAll(/^```(\w+)\n(.*?)^```$/gms);
  return Array.from(found, ([, language, text]) => ({ language, text }));
}

/** Follows the page in a folder that has the shipped templates. */
async function follow(folder) {
  for (const { language, text } of blocks()) {
    const name = /^(?:\/\/|<!--) ([\w.]+)/.exec(text)?.[1];
    if (name !== undefined) {
      writeFileSync(join(folder, name), text);
      continue;
    }
    if (language !== "bash") throw new Error(`a block of ${language} has no name`);
    const script = text.replace(/^npm install .*$/gm, "").replace(/^mailroom .*$/gm, "");
    const { status, said } = await run("sh", ["-ec", script], { cwd: folder });
    if (status !== 0) throw new Error(`${script} ends with ${status}: ${said}`);
  }
}

export async function elsewhere(parent) {
  const checks = new Checks();
  const folder = join(parent, "elsewhere");
  const templates = join(folder, "templates");
  mkdirSync(folder);
  symlinkSync(PACKAGES, join(folder, "node_modules"));
  const server = new SMTPServer({ disabledCommands: ["AUTH", "STARTTLS"], logger: false });
  await once(server.listen(0, "127.0.0.1"), "listening");
  try {
    const { port } = server.server.address();
    const file = configuration(folder, port, templates);
    await send("--init", templates);
    for (const action of ["recover", "activate"]) rmSync(join(templates, `en/${action}.mail`));
    await follow(folder);
    const whole = await send("--config", file, "--check");
    checks.same("the check finds every placeholder", whole.status, 0);
    checks.same("of all mails", whole.said, /48 mails can be written/);
    const preview = join(folder, "preview");
    await send("--config", file, "--preview", preview);
    for (const [name, code] of [
      ["en-recover", "01234"],
      ["en-activate", ""],
    ]) {
      for (const ending of ["html", "txt"]) {
        const body = readFileSync(join(preview, `${name}.${ending}`), "utf8");
        const link = `https://example.org/${name.slice(3)}`;
        const shows = body.includes(link) && body.includes(code) && body.includes("2027-01-15");
        checks.same(`${name}.${ending} shows link, code and time`, shows, true);
        checks.same(`${name}.${ending} has no placeholder`, /\{\{|%7B/i.test(body), false);
        checks.same(`${name}.${ending} fetches nothing`, /<link|@import|<img/.test(body), false);
      }
    }
    for (const [name, from, to, expected] of [
      ["recover.html", "{{ link }}", "%7B%7B%20link%20%7D%7D", "{{ link }} in its HTML"],
      ["recover.html", "{{ code }}", "code", "{{ code }} in its HTML"],
      ["recover.txt", "{{ code }}", "", "{{ code }} in its text"],
      ["activate.txt", "{{ link }}", "{ link }", "{{ link }} in its text"],
      ["recover.txt", "{{ product }}", "{{ PRODUCT }}", "there is no variable PRODUCT"],
    ]) {
      const path = join(templates, "en", name);
      const text = readFileSync(path, "utf8");
      checks.same(`${name} has ${from}`, text.includes(from), true);
      writeFileSync(path, text.replaceAll(from, to));
      const { status, said } = await send("--config", file, "--check");
      checks.same(`${name} without ${from} is refused`, status, 2);
      checks.same(`${name} without ${from} is named`, said.includes(expected), true);
      writeFileSync(path, text);
    }
  } finally {
    await new Promise((done) => server.close(done));
  }
  return checks.results;
}
