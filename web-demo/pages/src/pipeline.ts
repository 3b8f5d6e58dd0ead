// The page that shows the flow, and the buttons that make one.

import { byId, say } from "./element.ts";
import { showFlow } from "./flow.ts";
import { Live } from "./live.ts";
import type { PartState, Settings } from "./messages.ts";
import { showConnection, showParts } from "./parts.ts";
import { post, type Reply } from "./post.ts";
import { showProgress } from "./progress.ts";

const collector = byId<HTMLButtonElement>("collector");
const rotate = byId<HTMLButtonElement>("rotate");
let collectorRuns = true;

new Live(showConnection)
  .on("parts", (parts) => {
    showParts(parts);
    showCollector(parts.collector);
  })
  .on("settings", showKey)
  .on("counts", showFlow)
  .on("load-registrations", (progress) => showProgress("registrations", "Registrations", progress))
  .on("load-flood", (progress) => showProgress("flood", "Bad links", progress))
  .follow();

press(byId<HTMLButtonElement>("registrations"), () => post("/demo/registrations", { count: 1_000 }));
press(byId<HTMLButtonElement>("flood"), () => post("/demo/flood", { count: 10_000 }));
press(collector, () => post("/demo/collector", { run: !collectorRuns }));
press(rotate, () => post("/demo/rotate", {}));

function press(button: HTMLButtonElement, work: () => Promise<Reply>): void {
  button.addEventListener("click", async () => {
    button.setAttribute("aria-disabled", "true");
    const { ok, message } = await work();
    button.removeAttribute("aria-disabled");
    const note = byId("pipeline-note");
    note.classList.toggle("wrong", !ok);
    say(note, message);
  });
}

function showCollector(state: PartState | undefined): void {
  collectorRuns = state !== "stopped";
  say(collector, collectorRuns ? "Kill the collector" : "Start the collector");
}

function showKey({ key }: Settings): void {
  say(rotate, `Rotate the key (${key.current} of ${key.count})`);
}
