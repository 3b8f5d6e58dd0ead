// `mailroom ui`, running.

import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { within } from "../waiting.mjs";

export class Screen {
  #running;
  #ended;

  /** Where it is. */
  origin;

  /** The address that opens it once. */
  link;

  static async start() {
    const screen = new Screen();
    screen.#running = spawn(process.env.MAILROOM_TEST_PROGRAM, ["ui", "--port", "0"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    screen.#ended = once(screen.#running, "exit");
    screen.link = await within("the link of mailroom ui", linkOf(screen.#running.stdout));
    screen.origin = new URL(screen.link).origin;
    return screen;
  }

  async end() {
    this.#running.kill("SIGTERM");
    const [status] = await within("the end of mailroom ui", this.#ended);
    if (status !== 0) throw new Error(`mailroom ui ends with ${status}`);
  }
}

/** A run of a collector, whose lines nobody sends. */
export function collectOnce() {
  const env = { ...process.env, MAILROOM_SECRET_KEY: randomBytes(32).toString("hex") };
  const stdio = ["ignore", "pipe", "inherit"];
  execFileSync(process.env.MAILROOM_TEST_PROGRAM, ["collect", "--once"], { env, stdio });
}

async function linkOf(output) {
  for await (const line of createInterface(output)) {
    if (line.startsWith("http://")) return line;
  }
  throw new Error("mailroom ui has ended");
}
