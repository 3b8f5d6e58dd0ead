// `mailroom send`, with a configuration of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";

import { mailroom } from "../mailroom.mjs";

/** Writes a configuration for a mail server of this machine. */
export function configuration(folder, port, templates) {
  const file = join(folder, "send.toml");
  const lines = [
    'from = "a@example.org"',
    'product = "Example"',
    'journal = "journal"',
    ...(templates === undefined ? [] : [`templates = "${templates}"`]),
    "[links]",
    'base = "https://example.org"',
    "[smtp]",
    'server = "127.0.0.1"',
    `port = ${port}`,
    'tls = "none"',
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  return file;
}

/** Runs a program to its end, and answers its status and all that it says. */
export async function run(command, args, options) {
  const running = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  const [output, errors, [status]] = await Promise.all([
    text(running.stdout),
    text(running.stderr),
    once(running, "close"),
  ]);
  return { status, said: output + errors };
}

/** Runs `mailroom send`. */
export function send(...args) {
  return run(mailroom(), ["send", ...args]);
}
