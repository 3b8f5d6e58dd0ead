// The stage: makes a database, starts every other part of the demonstration, watches them, and ends
// them all on a signal.

import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

import { listen } from "../service/server.ts";
import { Audience } from "./audience.ts";
import { controls, type Stage, settings } from "./controls.ts";
import { required, withDatabase } from "./database.ts";
import { withFolders } from "./folders.ts";
import { Junk } from "./junk.ts";
import { Keys } from "./keys.ts";
import { Load } from "./load.ts";
import { followMails } from "./mail_feed.ts";
import { Observer } from "./observer.ts";
import type { Part, State, Watcher } from "./part.ts";
import { makeParts, type Signing } from "./parts.ts";
import type { Setting } from "./setting.ts";
import { ending, hurrying } from "./signals.ts";
import { watch } from "./watch.ts";

try {
  console.log("  starting a throwaway PostgreSQL ...");
  await withDatabase((access) =>
    withFolders((folders) =>
      run({
        ...access,
        ...folders,
        site: dirname(dirname(fileURLToPath(import.meta.url))),
        mailroom: required("MAILROOM_TEST_PROGRAM"),
        inbox: required("MAILROOM_DEMO_INBOX"),
        workerd: required("MAILROOM_DEMO_WORKERD"),
      }),
    ),
  );
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}
process.exit();

/** Runs the parts until a signal comes or one of them cannot be kept running. */
async function run(setting: Setting): Promise<void> {
  console.log("  starting the collector, the inbox, the origin, mailroom serve and the edge ...");
  const states = new Map<string, State>();
  const audience = new Audience();
  const tellState = (name: string, state: State) => {
    states.set(name, state);
    audience.tell("parts", Object.fromEntries(states));
  };
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
  const tellDatabase = (answers: boolean) => {
    const state = answers ? "up" : "down";
    const before = states.get("database");
    if (before === state || ending.signal.aborted) return;
    tellState("database", state);
    if (!answers) watcher.report("the database does not answer");
    else if (before !== undefined) watcher.report("the database answers again");
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
  const ready: Stage = { parts, keys, signing, observer, audience, load };
  stage = ready;

  const start = async () => {
    await Promise.all([parts.inbox, parts.origin, parts.serve].map((part) => part.start()));
    for (const part of [parts.edge, parts.collector])
      if (!ending.signal.aborted) await part.start();
    if (ending.signal.aborted) return;
    settings(ready);
    void followMails(parts.inbox, ending.signal, (mail) => audience.tellMail(mail));
    void watch(parts, observer, audience, ending.signal, tellDatabase);
    console.log(`\n  The demonstration: ${parts.edge.url}/\n  Its inbox: ${parts.inbox.url}/`);
    console.log("\n  Ctrl-C ends it.");
    if (process.stdout.isTTY && process.env.CI === undefined) show(`${parts.edge.url}/`);
  };
  /** In the opposite order of the starts, so that no part misses one that it calls. */
  const end = async () => {
    const { collector, edge, serve, origin, inbox } = parts;
    for (const part of [collector, edge, serve, origin, inbox]) await part.stop();
    await observer.end().catch(() => undefined);
  };
  try {
    await Promise.race([start().then(() => aborted(ending.signal)), aborted(ending.signal)]);
  } finally {
    console.log("\n  ending every part ...");
    const hurried = aborted(hurrying.signal).then(() => {
      process.exitCode = 1;
    });
    await Promise.race([end(), hurried]);
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

/**
 * In the browser of the desktop, if there is one; otherwise the address that was printed has to do.
 */
function show(address: string): void {
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  const program =
    process.platform === "darwin" ? "open" : DISPLAY || WAYLAND_DISPLAY ? "xdg-open" : undefined;
  if (program === undefined) return;
  spawn(program, [address], { detached: true, stdio: "ignore" })
    .on("error", () => undefined)
    .unref();
}
