// The strip at the foot of a page that says which part runs.

import { byId, element } from "./element.ts";
import type { PartState } from "./messages.ts";

const WORDS: Record<PartState, string> = {
  starting: "starts",
  up: "runs",
  stopped: "was stopped",
  down: "is down, and is being started again",
};

const ORDER = ["database", "collector", "inbox", "origin", "serve", "edge"];

export function showParts(parts: Readonly<Record<string, PartState>>): void {
  const known = ORDER.flatMap((name) => {
    const state = parts[name];
    return state === undefined
      ? []
      : [element("span", { class: `part part-${state}` }, `${name} ${WORDS[state]}`)];
  });
  byId("parts").replaceChildren(...known);
}

/** Nobody can tell how the parts are when the edge, or what is behind it, does not answer. */
export function showConnection(connected: boolean): void {
  if (connected) return;
  const text = "The demonstration does not answer. This page goes on when it does.";
  byId("parts").replaceChildren(element("span", { class: "part part-down", role: "status" }, text));
}
