// The suite's postfix, and the mailbox in which everybody's mails arrive.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { until, within } from "../waiting.mjs";

const SCRIPT = fileURLToPath(new URL("../../../../tests/senders/postfix.sh", import.meta.url));

export const HAS_POSTFIX = process.getuid?.() === 0 && existsSync("/usr/sbin/postfix");

export class Mailbox {
  #process;
  #folder;

  static async open(folder, port) {
    mkdirSync(folder, { recursive: true });
    const files = ["-keyout", join(folder, "key.pem"), "-out", join(folder, "certificate.pem")];
    const kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"];
    execFileSync("openssl", ["req", ...kind, ...files], { stdio: "ignore" });
    const mailbox = new Mailbox();
    mailbox.#folder = folder;
    mailbox.#process = spawn("sh", [SCRIPT, folder, String(port)], {
      stdio: ["pipe", "ignore", "inherit"],
    });
    await until("postfix", () => listens(port));
    return mailbox;
  }

  /** The one mail of those that are there, or come, in which `pattern` matches. */
  mail(pattern) {
    return until(`a mail with ${pattern}`, () => this.#all().find((text) => pattern.test(text)));
  }

  #all() {
    const inbox = join(this.#folder, "mail/inbox/new");
    if (!existsSync(inbox)) return [];
    const mails = readdirSync(inbox).map((name) => readFileSync(join(inbox, name), "utf8"));
    return mails.map((text) => text.replaceAll("=\n", "").replaceAll("=3D", "="));
  }

  async close() {
    const ended = new Promise((resolve) => this.#process.once("close", resolve));
    this.#process.stdin.end();
    await within("the end of postfix", ended);
  }
}

function listens(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => socket.end(() => resolve(true)));
    socket.once("error", () => resolve(false));
  });
}
