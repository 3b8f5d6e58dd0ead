// The shells of a reader: one in which blocks follow each other, and one for each program that
// runs on.

import { spawn } from "node:child_process";

import { within } from "../waiting.mjs";

const END = "-- end of block --";

export class Terminal {
  #shell;
  #printed = "";
  #heard = () => {};

  constructor(folder, environment) {
    this.#shell = spawn("bash", ["-e", "-u", "-o", "pipefail"], {
      cwd: folder,
      env: environment,
      stdio: ["pipe", "pipe", "pipe"],
      // Its programs end with it.
      detached: true,
    });
    for (const stream of [this.#shell.stdout, this.#shell.stderr]) {
      stream.on("data", (data) => {
        this.#printed += data;
        this.#heard();
      });
    }
    this.#shell.on("exit", () => this.#heard());
    this.#shell.stdin.on("error", () => {});
  }

  get printed() {
    return this.#printed;
  }

  /** Whether what it was started with has ended. */
  get hasEnded() {
    return this.#shell.exitCode !== null || this.#shell.signalCode !== null;
  }

  /** Runs a block and returns what it printed. */
  async run(text) {
    const before = this.#printed.length;
    const ended = new Promise((resolve, reject) => {
      this.#heard = () => {
        if (this.#printed.slice(before).includes(END)) resolve();
        else if (this.#shell.exitCode !== null) {
          reject(new Error(`a command failed:\n${text}\n${this.#printed.slice(before)}`));
        }
      };
    });
    this.#shell.stdin.write(`${text}\necho '${END}'\n`);
    await within(text.trim().split("\n").at(-1), ended);
    return this.#printed.slice(before).replace(`${END}\n`, "");
  }

  /** Starts a block whose last command runs on. */
  start(text) {
    this.#shell.stdin.end(text);
  }

  /** As Ctrl-C does it: with all that it has started. */
  async stop() {
    if (this.hasEnded) return;
    const ended = new Promise((resolve) => this.#shell.once("close", resolve));
    process.kill(-this.#shell.pid, "SIGINT");
    this.#shell.stdin.end();
    await within("the end of a terminal", ended);
  }
}
