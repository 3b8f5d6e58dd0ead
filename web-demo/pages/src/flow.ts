// The counters, in the order in which things pass them, with their rates.

import { byId, element, say } from "./element.ts";
import type { Counts } from "./messages.ts";

interface Stop {
  readonly id: string;
  /** Where it stands; what is stopped goes nowhere, and has its own place in the page. */
  readonly list: "outward" | "homeward" | undefined;
  readonly name: string;
  /** Which part counts it. */
  readonly by: string;
  /** Whether it is a number of things that are there now, and so has no rate. */
  readonly standing?: boolean;
  readonly look?: "shielded";
  /** Nothing if the part that counts is away. */
  readonly of: (counts: Counts) => number | undefined;
}

const STOPS: readonly Stop[] = [
  {
    id: "registered",
    list: "outward",
    name: "registered",
    by: "database",
    of: ({ census }) => census.registered,
  },
  {
    id: "waiting",
    list: "outward",
    name: "waiting",
    by: "database",
    standing: true,
    of: ({ census }) => census.waiting,
  },
  {
    id: "claimed",
    list: "outward",
    name: "claimed",
    by: "database",
    standing: true,
    of: ({ census }) => census.claimed,
  },
  {
    id: "sent",
    list: "outward",
    name: "mails sent",
    by: "database",
    of: ({ census }) => census.sent,
  },
  {
    id: "received",
    list: "outward",
    name: "mails received",
    by: "inbox",
    of: ({ inbox }) => inbox?.received,
  },
  {
    id: "opened",
    list: "homeward",
    name: "opened, genuine",
    by: "edge",
    of: ({ edge }) => edge?.opened,
  },
  {
    id: "refused",
    list: undefined,
    name: "refused",
    by: "edge",
    of: ({ edge }) => edge && sum(edge.refused),
  },
  {
    id: "calls",
    list: "homeward",
    name: "calls to redeem",
    by: "edge",
    look: "shielded",
    of: ({ edge }) => edge?.calls,
  },
  { id: "verified", list: "homeward", name: "used", by: "edge", of: ({ edge }) => edge?.verified },
];

/** Rates are over this long, in milliseconds, so that they can be read. */
const WINDOW = 3_000;

const history: Counts[] = [];

export function showFlow(counts: Counts): void {
  history.push(counts);
  byId("outward").dataset.at = String(counts.at);
  while (history.length > 2 && (history[0]?.at ?? 0) < counts.at - WINDOW) history.shift();
  for (const stop of STOPS) {
    const [count, rate] = cell(stop);
    const value = stop.of(counts);
    say(count, value === undefined ? "?" : value.toLocaleString("en"));
    say(rate, stop.standing ? "now" : rateOf(stop));
  }
  showRefused(counts.edge?.refused ?? {});
}

function rateOf({ of }: Stop): string {
  const [first, last] = [history[0], history.at(-1)];
  if (first === undefined || last === undefined || last.at === first.at) return "";
  const [before, after] = [of(first), of(last)];
  if (before === undefined || after === undefined) return "does not answer";
  // A part that was started again counts from the beginning.
  const rate = Math.max(0, (after - before) / ((last.at - first.at) / 1000));
  return rate === 0
    ? ""
    : `${rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en")} a second`;
}

const cells = new Map<string, [count: HTMLElement, rate: HTMLElement]>();

function cell(stop: Stop): [HTMLElement, HTMLElement] {
  const known = cells.get(stop.id);
  if (known !== undefined) return known;
  const made = stop.list === undefined ? placed(stop.id) : drawn(stop, stop.list);
  cells.set(stop.id, made);
  return made;
}

function placed(id: string): [HTMLElement, HTMLElement] {
  const count = document.querySelector<HTMLElement>(`[data-count="${id}"]`);
  if (count === null) throw new Error(`the page has no place for ${id}`);
  return [count, byId(`${id}-rate`)];
}

function drawn({ id, name, by, look }: Stop, list: string): [HTMLElement, HTMLElement] {
  const count = element("span", { class: "count", "data-count": id });
  const rate = element("span", { class: "rate" });
  const source = element("span", { class: "by" }, `counted by the ${by}`);
  byId(list).append(
    element(
      "li",
      { class: look ?? "" },
      element("span", { class: "name" }, name),
      count,
      rate,
      source,
    ),
  );
  return [count, rate];
}

function showRefused(refused: Readonly<Record<string, number>>): void {
  const reasons = Object.entries(refused).sort(([, one], [, other]) => other - one);
  const most = reasons[0]?.[1] ?? 1;
  byId("refused").replaceChildren(
    ...(reasons.length === 0 ? [element("li", { class: "note" }, "Nothing yet.")] : []),
    ...reasons.map(([reason, count]) =>
      element(
        "li",
        { "data-reason": reason },
        element("code", {}, reason),
        element("meter", {
          min: "0",
          max: String(most),
          value: String(count),
          "aria-label": reason,
        }),
        element("span", { class: "number" }, count.toLocaleString("en")),
      ),
    ),
  );
}

function sum(numbers: Readonly<Record<string, number>>): number {
  return Object.values(numbers).reduce((total, number) => total + number, 0);
}
