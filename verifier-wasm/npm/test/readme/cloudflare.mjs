// The Worker of the book's page on Cloudflare, in workerd, without `nodejs_compat`: a link is
// opened, pressed twice, and forged.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import * as esbuild from "../bundlers/esbuild.mjs";
import { Checks } from "../checks.mjs";
import { write } from "../runtimes/consumer.mjs";
import { withWorker } from "../runtimes/workerd.mjs";

const DATE = "2025-09-01";

export async function onCloudflare(folder, text, program, { key, tokens: [token] }) {
  const checks = new Checks();
  const output = join(folder, "dist");
  mkdirSync(output, { recursive: true });
  write(folder, "on_cloudflare.js", text);
  write(folder, "database.js", 'export const redeem = async () => "ok";\n');
  await esbuild.bundleWorker({ source: folder, entry: "on_cloudflare.js", output });
  const bindings = { texts: { MAILROOM_SECRET_KEY: key } };
  const objects = { USED_TOKENS: "UsedToken" };
  const worker = { program, folder: output, main: "main.mjs", date: DATE, bindings, objects };
  await withWorker(worker, async (url) => {
    const opened = async (text) => (await fetch(`${url}/activate?token=${text}`)).status;
    const pressed = async () => {
      const body = new URLSearchParams({ token });
      return fetch(`${url}/activate`, { method: "POST", body, headers: { Origin: url } });
    };
    const forged = `${token.slice(0, 70)}${token[70] === "A" ? "B" : "A"}${token.slice(71)}`;
    checks.same("a forged link", await opened(forged), 403);
    for (const times of [1, 2]) checks.same(`opened ${times} times`, await opened(token), 200);
    checks.same("pressed", (await pressed()).status, 200);
    checks.same("pressed again", (await pressed()).status, 409);
  });
  return checks.results;
}
