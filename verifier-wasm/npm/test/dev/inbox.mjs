// `mailroom dev`, running.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";

import { started } from "../mailroom.mjs";

/** Starts it in a folder; links of its mails lead to `links`. */
export async function inboxOf(folder, links) {
  const args = ["dev", "--port", "0", "--links", links];
  const { line, end } = await started(args, "Inbox: ", { cwd: folder });
  return {
    address: line.slice("Inbox: ".length).replace(/\/$/, ""),
    variables: parseEnv(readFileSync(join(folder, ".mailroom/env"), "utf8")),
    end,
  };
}
