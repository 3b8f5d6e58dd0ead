// Draws a judged token: its bytes by field, what it says of itself, and the checks.

import type { UnverifiedToken } from "mailroom-verifier/public";

import { FURTHER } from "../../edge/actions.ts";
import { byId, element, say } from "./element.ts";
import { bytesOf, fieldsOf } from "./fields.ts";
import type { Check, Judgement } from "./judging.ts";
import { clock, left } from "./time.ts";

const MARKS = { passed: "✓", failed: "✗", open: "–" };
const SPOKEN = { passed: "passed", failed: "failed", open: "not decided here" };

export function drawVerdict({ verdict, words, checks, microseconds }: Judgement): void {
  const banner = byId("verdict");
  banner.className = `verdict verdict-${verdict}`;
  say(banner, words);
  byId("checks").replaceChildren(...checks.map(drawCheck));
  const rounded = microseconds < 1 ? "less than 1" : Math.round(microseconds).toLocaleString("en");
  byId("time").textContent = `Judged in this page in ${rounded} µs.`;
}

export function drawCheck({ name, state, note }: Check): HTMLElement {
  return element(
    "li",
    { class: `check check-${state}`, "data-check": name, "data-state": state },
    element("span", { class: "mark", "aria-hidden": "true" }, MARKS[state]),
    element(
      "span",
      {},
      element("span", { class: "by" }, name),
      ` ${note}`,
      element("span", { class: "visually-hidden" }, ` (${SPOKEN[state]})`),
    ),
  );
}

/** @param before the token as it was picked, to mark what has been changed since */
export function drawBytes(token: string, before: string): void {
  const fields = fieldsOf(token) ?? [{ name: "no token has this length", tint: 0, length: 4096 }];
  byId("legend").replaceChildren(
    ...fields.map(({ name, tint, length }) =>
      element(
        "li",
        { class: `tint-${tint}` },
        tint === 0 ? name : `${name}, ${length} ${length === 1 ? "byte" : "bytes"}`,
      ),
    ),
  );
  const [bytes, original] = [bytesOf(token).slice(0, 4096), bytesOf(before)];
  const drawn: HTMLElement[] = [];
  let at = 0;
  for (const { name, tint, length } of fields) {
    for (const end = Math.min(at + length, bytes.length); at < end; at += 1) {
      const changed = token.length === before.length && bytes[at] !== original[at];
      const hex = (bytes[at] ?? 0).toString(16).padStart(2, "0");
      const what = changed ? `${name}, changed` : name;
      drawn.push(
        element(
          "span",
          { class: `byte tint-${tint}${changed ? " byte-changed" : ""}`, title: what },
          hex,
        ),
      );
    }
  }
  byId("bytes").replaceChildren(...drawn);
}

export function drawFacts(token: string, { parts }: Judgement): void {
  const facts: [name: string, value: string | HTMLElement][] = [
    ["Characters", String(token.length)],
  ];
  if (parts !== undefined) {
    facts.unshift(["Format", `v${parts.version}`]);
    facts.push(["Action", actionIn(parts)]);
    const expiry = parts.unverifiedExpiresAt;
    facts.push([
      "Expires",
      expiry === undefined
        ? "not in the token"
        : element("span", { id: "expiry" }, countdown(expiry)),
    ]);
    facts.push([
      "Key id",
      parts.unverifiedKeyId === undefined ? "not in the token" : hexadecimal(parts.unverifiedKeyId),
    ]);
    facts.push(["Remembered as", hexadecimal(parts.unverifiedConsumedId)]);
  }
  byId("facts").replaceChildren(
    ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}

function actionIn({ unverifiedAction, unverifiedActionNumber: number }: UnverifiedToken): string {
  if (number === undefined) return "not in the token; it is part of what is signed";
  const [further] = Object.entries(FURTHER).find(([, action]) => action.number === number) ?? [];
  return unverifiedAction ?? further ?? `number ${number}, which nobody knows here`;
}

/** @param expiry seconds since the Unix epoch */
export function countdown(expiry: number): string {
  const remaining = left(expiry);
  if (remaining === undefined) return `expired at ${clock(expiry * 1000)}`;
  return `in ${remaining}${remaining.includes("days") ? "" : `, at ${clock(expiry * 1000)}`}`;
}

function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
