// The program `mailroom`, which MAILROOM_TEST_PROGRAM names.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { within } from "./waiting.mjs";

/** Its path. */
export function mailroom() {
  const program = process.env.MAILROOM_TEST_PROGRAM;
  if (program === undefined) throw new Error("MAILROOM_TEST_PROGRAM names no program");
  return program;
}

/**
 * Starts a command that runs until it is ended, and waits until it prints a line that begins so.
 *
 * @param {string[]} args
 * @param {string} beginning
 * @param {import("node:child_process").SpawnOptions} [options]
 * @returns {Promise<{ line: string, end(): Promise<void> }>}
 */
export async function started(args, beginning, options) {
  const name = `mailroom ${args[0]}`;
  const running = spawn(mailroom(), args, { stdio: ["ignore", "pipe", "inherit"], ...options });
  const ended = once(running, "exit");
  const line = async () => {
    for await (const printed of createInterface(running.stdout)) {
      if (printed.startsWith(beginning)) return printed;
    }
    throw new Error(`${name} has ended`);
  };
  return {
    line: await within(`${name}: ${beginning}`, line()),
    async end() {
      running.kill("SIGTERM");
      const [status] = await within(`the end of ${name}`, ended);
      if (status !== 0) throw new Error(`${name} ends with ${status}`);
    },
  };
}
