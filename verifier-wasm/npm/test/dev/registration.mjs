// The browser test of docs/guides/inbox.md, as it stands there but for addresses and the browser.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Checks } from "../checks.mjs";
import { PATIENCE } from "../waiting.mjs";

/** For a mail, in seconds: a minute and more for a busy machine. */
const SECONDS_FOR_A_MAIL = PATIENCE / 1_000;
const DOCUMENT = new URL("../../../../docs/guides/inbox.md", import.meta.url);

export async function registration(folder, { browser, site, inbox }) {
  const checks = new Checks();
  const [, block] = /```js\n(.*?)```/s.exec(readFileSync(DOCUMENT, "utf8")) ?? [];
  if (block === undefined) throw new Error("docs/guides/inbox.md has no example in JavaScript");
  checks.same("it has twenty lines", block.trim().split("\n").length <= 20, true);
  const options = {
    executablePath: browser,
    chromiumSandbox: process.getuid?.() !== 0,
  };
  const test = block
    .replace("playwright-core", import.meta.resolve("playwright-core"))
    .replace("http://localhost:3000", site.address)
    .replace("http://127.0.0.1:8025", inbox.address)
    .replace('"activate")', `"activate", { timeout: ${SECONDS_FOR_A_MAIL} })`)
    .replace("newPage();", `newPage();\npage.setDefaultTimeout(${PATIENCE});`)
    .replace("launch()", `launch(${JSON.stringify(options)})`);
  const file = join(folder, "register.mjs");
  writeFileSync(file, test);
  const running = spawn(process.execPath, [file], { stdio: "inherit" });
  const [status] = await once(running, "exit");
  checks.same("it ends well", status, 0);
  const active = await site.rows("SELECT FROM users WHERE verified_at IS NOT NULL");
  checks.same("one account is active", active.length, 1);
  return checks.results;
}
