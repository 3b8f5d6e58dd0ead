// A process of the demonstration: started, watched, and started again when it dies,
// as a service manager does.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

/** Runs a program until its own standard input ends; descriptor 3 gets the process id. */
export const SUPERVISE = fileURLToPath(new URL("supervise.sh", import.meta.url));

/** `stopped` is how somebody wants it, `down` is not. */
export type State = "starting" | "up" | "stopped" | "down";

export interface Plan {
  readonly program: string;
  readonly arguments: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
}

export interface Watcher {
  /** The state has changed. */
  changed(part: Part): void;
  /** Something that somebody at the terminal should know. */
  report(text: string): void;
  /** It cannot be kept running. */
  failed(part: Part, text: string): void;
}

/**
 * How long a start and an end may take, in milliseconds: a start on a machine that does much else.
 */
const START = 120_000;
const END = 10_000;

/** A part that has run for so long was well. */
const WELL = 10_000;
const MOST_DEATHS = 5;

export class Part {
  readonly name: string;
  readonly #logs: string;
  readonly #watcher: Watcher;
  /** Made anew for each start, because settings change. */
  readonly #plan: () => Plan;
  /** Whether it says on which port it listens; the others are up once they run. */
  readonly #listens: boolean;
  #state: State = "stopped";
  #wanted = false;
  #child: ChildProcess | undefined;
  #process: number | undefined;
  #deaths = 0;
  #starts = 0;
  #restart: NodeJS.Timeout | undefined;
  #lastWords = "";
  /**
   * Where it listens, if it does: its ports by the names that it announces.
   * They stay when it starts again.
   */
  readonly ports: Record<string, number> = {};

  constructor(name: string, listens: boolean, logs: string, watcher: Watcher, plan: () => Plan) {
    this.name = name;
    this.#listens = listens;
    this.#logs = logs;
    this.#watcher = watcher;
    this.#plan = plan;
  }

  get state(): State {
    return this.#state;
  }

  /** How often it was started: what a process counts itself begins anew with each. */
  get starts(): number {
    return this.#starts;
  }

  /** The port of its pages or services, which it announces last. */
  get port(): number | undefined {
    return this.ports.http;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The end of what it has printed. */
  get lastWords(): string {
    return this.#lastWords;
  }

  /** Returns once it is up. */
  async start(): Promise<void> {
    this.#wanted = true;
    clearTimeout(this.#restart);
    if (this.#child !== undefined) return;
    this.#become("starting");
    const plan = this.#plan();
    const started = Date.now();
    this.#starts += 1;
    // In a process group of its own it does not get the Ctrl-C that is meant for all,
    // and is ended in order.
    const child = spawn("/bin/sh", [SUPERVISE, plan.program, ...plan.arguments], {
      detached: true,
      env: { ...inherited(), PORT: String(this.port ?? 0), ...plan.variables },
      stdio: ["pipe", "pipe", "pipe", "pipe"],
    });
    this.#child = child;
    child.stdin?.on("error", () => undefined);
    this.#keepLog(child);
    child.once("exit", (code, signal) => this.#ended(child, started, ending(code, signal)));
    await this.#ready(child);
    if (this.#child === child) this.#become("up");
  }

  /** Ends it in order, and returns when it has ended. */
  async stop(): Promise<void> {
    this.#wanted = false;
    clearTimeout(this.#restart);
    const child = this.#child;
    if (child !== undefined) {
      child.stdin?.end();
      const timer = setTimeout(() => this.#signalGroup(child, "SIGKILL"), END);
      await this.#gone(child);
      clearTimeout(timer);
    }
    this.#become("stopped");
  }

  /** Ends it as a crash does; it stays down until it is started. */
  async kill(): Promise<void> {
    this.#wanted = false;
    clearTimeout(this.#restart);
    const child = this.#child;
    if (child !== undefined) {
      this.#signalGroup(child, "SIGKILL");
      await this.#gone(child);
    }
    this.#become("stopped");
  }

  signal(signal: NodeJS.Signals): void {
    if (this.#process !== undefined && this.#child !== undefined)
      process.kill(this.#process, signal);
  }

  async #gone(child: ChildProcess): Promise<void> {
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }

  /** Everything that it has started, but for what has made a group of its own. */
  #signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal);
    } catch {
      // It has ended meanwhile.
    }
  }

  #become(state: State): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#watcher.changed(this);
  }

  #keepLog(child: ChildProcess): void {
    const log = createWriteStream(join(this.#logs, `${this.name}.log`), { flags: "a" });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.pipe(log, { end: false });
      stream?.on("data", (chunk: Buffer) => {
        this.#lastWords = `${this.#lastWords}${chunk}`.slice(-2_000);
      });
    }
    child.once("close", () => log.end());
  }

  /** Waits for the process id, and for the port where there will be one. */
  async #ready(child: ChildProcess): Promise<void> {
    const timer = setTimeout(() => this.#signalGroup(child, "SIGKILL"), START);
    const said = createInterface({ input: child.stdio[3] as Readable });
    const announced = this.#listens
      ? [child.stdout, child.stderr].map((input) => createInterface({ input: input as Readable }))
      : [];
    await new Promise<void>((resolve) => {
      const hear = (line: string) => {
        const [, address] = /are served.* address=\S+:(\d+)/.exec(line) ?? [];
        if (address !== undefined) {
          // As `mailroom serve` announces its port.
          this.ports.http = Number(address);
          resolve();
        } else if (/^\d+$/.test(line)) {
          this.#process = Number(line);
          if (!this.#listens) resolve();
        } else if (line.startsWith('{"event":"listen"')) {
          const { socket, port } = JSON.parse(line) as { socket: string; port: number };
          this.ports[socket] = port;
          if (socket === "http") resolve();
        }
      };
      said.on("line", hear);
      for (const lines of announced) lines.on("line", hear);
      child.once("exit", () => resolve());
    });
    clearTimeout(timer);
  }

  #ended(child: ChildProcess, started: number, how: string): void {
    (child.stdin as Writable | null)?.destroy();
    if (this.#child === child) this.#child = undefined;
    this.#process = undefined;
    if (!this.#wanted) return;
    this.#deaths = Date.now() - started > WELL ? 1 : this.#deaths + 1;
    this.#become("down");
    if (this.#deaths > MOST_DEATHS || (this.#listens && this.port === undefined)) {
      const often = this.#deaths > 1 ? `, ${this.#deaths} times in a row` : " before it was up";
      this.#watcher.failed(this, `${this.name} ended with ${how}${often}`);
      return;
    }
    const pause = 500 * 2 ** this.#deaths;
    this.#watcher.report(`${this.name} ended with ${how}; starting it again in ${pause / 1000} s`);
    this.#restart = setTimeout(() => void this.start(), pause);
  }
}

/** Without the variables by which the demonstration finds its own database and programs. */
export function inherited(): Record<string, string> {
  const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
  return { PATH, HOME, TMPDIR, LC_ALL: "C.UTF-8" };
}

function ending(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal !== null) return signal;
  // As the shell tells it.
  return code !== null && code > 128 ? `signal ${code - 128}` : `status ${code}`;
}
