// The stage: starts every part of the demonstration but PostgreSQL, watches them, and ends them all when its input ends.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";

import { listen } from "../service/server.ts";
import { Audience } from "./audience.ts";
import { controls, type Stage, settings } from "./controls.ts";
import { Junk } from "./junk.ts";
import { Keys } from "./keys.ts";
import { Load } from "./load.ts";
import { followMails } from "./mail_feed.ts";
import { Observer } from "./observer.ts";
import type { Part, State, Watcher } from "./part.ts";
import { makeParts, type Signing } from "./parts.ts";
import type { Setting } from "./setting.ts";
import { watch } from "./watch.ts";

const input = createInterface({ input: process.stdin });
const [line] = (await once(input, "line")) as [string];
const setting = JSON.parse(line) as Setting;

const ending = new AbortController();
const states = new Map<string, State>();
const audience = new Audience();
const watcher: Watcher = {
  changed(part) {
    tellState(part.name, part.state);
  },
  report(text) {
    console.error(`  ${text}`);
  },
  failed(part: Part, text: string) {
    console.error(`error: ${text}; its log is below`);
    console.error(part.lastWords);
    process.exitCode = 1;
    ending.abort();
  },
};

const keys = new Keys(setting.folder);
const signing: Signing = { format: "v3" };
const observer = new Observer(setting);
let stage: Stage | undefined;
const port = await listen(controls(() => stage as Stage));
const parts = makeParts(setting, keys, signing, port, watcher);
const load = new Load(parts, new Junk(setting, keys), (progress) =>
  audience.tell(`load-${progress.title}`, progress),
);
stage = { parts, keys, signing, observer, audience, load };

input.once("close", () => ending.abort());
ending.signal.addEventListener("abort", () => void end());

await Promise.all([parts.inbox.start(), parts.origin.start()]);
for (const part of [parts.edge, parts.collector]) if (!ending.signal.aborted) await part.start();
if (!ending.signal.aborted) {
  settings(stage);
  void followMails(parts.inbox, ending.signal, (mail) => audience.tellMail(mail));
  void watch(parts, observer, audience, ending.signal, tellDatabase);
  console.log(`\n  The demonstration: ${parts.edge.url}/\n\n  Ctrl-C ends it.`);
  if (setting.open) show(`${parts.edge.url}/`);
}

function tellState(name: string, state: State): void {
  states.set(name, state);
  audience.tell("parts", Object.fromEntries(states));
}

function tellDatabase(answers: boolean): void {
  const state = answers ? "up" : "down";
  const before = states.get("database");
  if (before === state || ending.signal.aborted) return;
  tellState("database", state);
  if (!answers) watcher.report("the database does not answer");
  else if (before !== undefined) watcher.report("the database answers again");
}

/** In the opposite order of the starts, so that nobody misses whom he asks. */
async function end(): Promise<void> {
  for (const part of [parts.collector, parts.edge, parts.origin, parts.inbox]) await part.stop();
  await observer.end().catch(() => undefined);
  // Whoever made it does so as well, unless it was killed.
  for (const folder of [setting.folder, setting.objects]) rmSync(folder, { recursive: true, force: true });
  process.exit();
}

/** In the browser of the desktop, if there is one; otherwise the address that was printed has to do. */
function show(address: string): void {
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  const program =
    process.platform === "darwin" ? "open" : DISPLAY || WAYLAND_DISPLAY ? "xdg-open" : undefined;
  if (program === undefined) return;
  spawn(program, [address], { detached: true, stdio: "ignore" })
    .on("error", () => undefined)
    .unref();
}
