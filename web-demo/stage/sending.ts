// What `mailroom send` is given: a configuration, and templates that were begun with its own.

import { execFileSync } from "node:child_process";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { Setting } from "./setting.ts";

/** Below MAILROOM_SENDER_TIMEOUT (parts.ts), in seconds. */
const TIMEOUT = 3;

/** Writes the templates: those that are shipped, and one for the action that is not. */
export function writeTemplates({ folder, site, mailroom }: Setting): void {
  const templates = join(folder, "templates");
  execFileSync(mailroom, ["send", "--init", templates], { stdio: "ignore" });
  cpSync(join(site, "templates"), templates, { recursive: true });
}

/**
 * Writes the configuration, and returns the command of the collector's sender.
 *
 * @param address where links lead, without a slash at the end
 * @param port where the inbox takes mails
 */
export function writeSending({ folder, mailroom }: Setting, address: string, port: number): string {
  const file = join(folder, "send.toml");
  const configuration = `from = "Mailroom <no-reply@mailroom.example>"
product = "Mailroom"
journal = "journal"
templates = "templates"
[links]
base = "${address}"
[smtp]
server = "127.0.0.1"
port = ${port}
tls = "none"
timeout_seconds = ${TIMEOUT}
`;
  writeFileSync(file, configuration);
  return [mailroom, "send", "--config", file].map(quoted).join(" ");
}

/** One word of a command, as the collector splits it. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
