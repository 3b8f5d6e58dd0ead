// `mailroom dev`, running.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseEnv } from "node:util";

import { within } from "../waiting.mjs";

/** Starts it in a folder; links of its mails lead to `links`. */
export async function inboxOf(folder, links) {
  const program = process.env.MAILROOM_TEST_PROGRAM;
  if (program === undefined) throw new Error("MAILROOM_TEST_PROGRAM names no program");
  const running = spawn(program, ["dev", "--port", "0", "--links", links], {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(running, "exit");
  const address = async () => {
    for await (const line of createInterface(running.stdout)) {
      if (line.startsWith("Inbox: ")) return line.slice("Inbox: ".length).replace(/\/$/, "");
    }
    throw new Error("mailroom dev has ended");
  };
  return {
    address: await within("the inbox", address()),
    variables: parseEnv(readFileSync(join(folder, ".mailroom/env"), "utf8")),
    async end() {
      running.kill("SIGTERM");
      const [status] = await within("the end of mailroom dev", ended);
      if (status !== 0) throw new Error(`mailroom dev ends with ${status}`);
    },
  };
}
