// The last things: what the run left in logs, and what Ctrl-C leaves behind.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";

/** Of whatever ran before, and of links of its own. */
export async function leaks({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("in-logs");
  checks.same(
    "a link works",
    await visitor.press(await visitor.follow(page, "activate")),
    "Your account is active",
  );
  await visitor.recover(page);
  await visitor.follow(page, "recover");
  checks.same("tokens were seen", visitor.tokens.size >= 2, true);
  const logs = { ...demo.logs(), terminal: demo.output };
  checks.none(
    "each part has a log",
    ["collector.log", "edge.log", "inbox.log", "origin.log"].filter((name) => !(name in logs)),
  );
  const found = Object.entries(logs).flatMap(([name, text]) =>
    [...visitor.tokens].filter((token) => text.includes(token.slice(0, 40))).map(() => name),
  );
  checks.none("no log has a token", found);
  const secrets = [...visitor.tokens].map(secretOf);
  const written = Object.entries(logs).flatMap(([name, text]) =>
    secrets.filter((secret) => text.toLowerCase().includes(secret)).map(() => name),
  );
  checks.none("nor the secret of one, as the origin and the database write it", written);
  return checks.results;
}

/** In hexadecimal. */
function secretOf(token) {
  const bytes = Buffer.from(token, "base64url");
  const start = bytes.length === 64 ? 0 : 14;
  return bytes.toString("hex", start, start + 32);
}

export async function end(demo) {
  const checks = new Checks();
  const { status, left, kept, folders } = await demo.interrupt();
  checks.same("after Ctrl-C it ends well", status, 0);
  checks.none("no process is left", left);
  checks.same("two folders were there", kept.length, 2);
  checks.none("no folder is left", folders);
  return checks.results;
}
