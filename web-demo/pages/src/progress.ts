// How far the traffic is that a button has started.

import { byId, element } from "./element.ts";
import type { Progress } from "./messages.ts";

const MEANINGS: Readonly<Record<string, string>> = {
  "0": "without an answer",
  "200": "let through",
  "202": "accepted",
  "400": "incomplete",
  "403": "not genuine",
  "409": "used before",
  "410": "expired",
  "503": "cannot be decided now",
};

export function showProgress(
  id: string,
  title: string,
  { done, of, statuses, running, elapsed }: Progress,
): void {
  const answers = Object.entries(statuses).map(([status, count]) => {
    return `${count.toLocaleString("en")} ${MEANINGS[status] ?? `answered with ${status}`}`;
  });
  const seconds = (elapsed / 1000).toFixed(1);
  const shares = answers.length > 0 ? ` (${answers.join(", ")})` : "";
  const share = `${done.toLocaleString("en")} of ${of.toLocaleString("en")}`;
  const text = `${title}: ${share} in ${seconds} s${shares}`;
  const bar = element("progress", {
    max: String(Math.max(of, 1)),
    value: String(done),
    "aria-label": title,
  });
  const shown = element(
    "div",
    { id: `progress-${id}`, "data-running": String(running) },
    element("p", { class: "note" }, text),
    bar,
  );
  const before = document.getElementById(`progress-${id}`);
  if (before === null) byId("progress").append(shown);
  else before.replaceWith(shown);
}
