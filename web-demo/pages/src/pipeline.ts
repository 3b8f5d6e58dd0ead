// The page that shows the flow, and the buttons that make one.

import { Asked } from "./asked.ts";
import { byId, say } from "./element.ts";
import { showFlow } from "./flow.ts";
import { Live } from "./live.ts";
import { showConnection, showParts } from "./parts.ts";
import { post, type Reply } from "./post.ts";
import { showProgress } from "./progress.ts";

const collector = byId<HTMLButtonElement>("collector");
const rotate = byId<HTMLButtonElement>("rotate");

const live = new Live(showConnection);
const running = new Asked<boolean>(
  (runs) => say(collector, runs ? "Kill the collector" : "Start the collector"),
  (run) => live.ask("/demo/collector", { run }),
);

live
  .on("parts", (parts) => {
    showParts(parts);
    running.hear(parts.collector !== "stopped");
  })
  .on("settings", ({ key }) => say(rotate, `Rotate the key (${key.current} of ${key.count})`))
  .on("counts", showFlow)
  .on("load-registrations", (progress) => showProgress("registrations", "Registrations", progress))
  .on("load-flood", (progress) => showProgress("flood", "Bad links", progress))
  .follow();

press(byId<HTMLButtonElement>("registrations"), () =>
  post("/demo/registrations", { count: 1_000 }),
);
press(byId<HTMLButtonElement>("flood"), () => post("/demo/flood", { count: 10_000 }));
press(collector, () => running.want(!(running.value ?? true)));
press(rotate, () => live.ask("/demo/rotate", {}));

/** A button keeps the focus while its press is under way, and a second press does nothing. */
function press(button: HTMLButtonElement, work: () => Promise<Reply | undefined>): void {
  button.addEventListener("click", async () => {
    if (button.ariaDisabled === "true") return;
    button.setAttribute("aria-disabled", "true");
    const reply = await work();
    button.removeAttribute("aria-disabled");
    if (reply === undefined) return;
    const note = byId("pipeline-note");
    note.classList.toggle("wrong", !reply.ok);
    say(note, reply.message);
  });
}
