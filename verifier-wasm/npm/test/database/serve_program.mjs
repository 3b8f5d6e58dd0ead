// `mailroom serve`, running.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { mailroom } from "../mailroom.mjs";
import { within } from "../waiting.mjs";

/** What a token may do that may do everything. */
export const ALL = {
  rights: [
    ...["enqueue", "request", "redeem", "browser_code", "cancel", "cancel_subject"],
    ...["recheck", "renew_link", "wake"],
  ],
  rate: "off",
};

/** A file of tokens: settings by token. */
export function writeTokens(folder, tokens) {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "serve.toml");
  const tables = Object.entries(tokens).map(([token, settings], at) => {
    const sha256 = createHash("sha256").update(token).digest("hex");
    const lines = Object.entries({ name: `number-${at}`, sha256, ...settings }).map(
      ([name, value]) => `${name} = ${JSON.stringify(value)}`,
    );
    return `[[token]]\n${lines.join("\n")}\n`;
  });
  writeFileSync(file, tables.join("\n"), { mode: 0o600 });
  return file;
}

/** Starts it for a role of the database; `more` are further arguments. */
export function serving(folder, database, tokens, more = []) {
  const args = ["serve", "--listen", "127.0.0.1:0", "--tokens", writeTokens(folder, tokens)];
  return started([...args, ...more], urlOf(database), {});
}

/** Starts a collector that is woken by calls. It has no database, so that it collects nothing. */
export function called() {
  return started(["collect"], "postgresql://nobody@127.0.0.1:1/none", {
    MAILROOM_WAKE: "call",
    MAILROOM_METRICS_ADDRESS: "0",
    MAILROOM_SECRET_KEY: "7".repeat(64),
  });
}

function urlOf({ host, port, user, database }) {
  return `postgresql://${user}@${host}:${port}/${database}`;
}

/** Starts the program, and waits until it says where it listens. */
async function started(args, databaseUrl, settings) {
  const running = spawn(mailroom(), args, {
    env: { MAILROOM_DATABASE_URL: databaseUrl, ...settings },
    stdio: ["ignore", "inherit", "pipe"],
  });
  const ended = once(running, "exit");
  let log = "";
  let found;
  const address = new Promise((resolve) => {
    found = resolve;
  });
  createInterface(running.stderr).on("line", (line) => {
    log += `${line}\n`;
    const [, where] = /are served.* address=(\S+)/.exec(line) ?? [];
    if (where !== undefined) found(where);
  });
  const failed = ended.then(([status]) => {
    throw new Error(`mailroom ${args[0]} ends with ${status}: ${log}`);
  });
  const url = `http://${await within("its address", Promise.race([address, failed]))}`;
  failed.catch(() => {});
  return {
    url,
    log: () => log,
    async end() {
      running.kill("SIGTERM");
      const [status] = await within(`the end of mailroom ${args[0]}`, ended);
      if (status !== 0) throw new Error(`mailroom ${args[0]} ends with ${status}: ${log}`);
    },
  };
}
