// The page that shows what a token is made of, and which check fails when it is changed.

import { type Action, actionOf } from "../../edge/actions.ts";
import { countdown, drawBytes, drawCheck, drawFacts, drawVerdict } from "./drawing.ts";
import { askEdge } from "./edge_verdict.ts";
import { byId, element, say } from "./element.ts";
import { type Judgement, makeJudge } from "./judging.ts";
import type { Mail } from "./messages.ts";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/**
 * A v1 token of the test vectors, whose key everybody knows:
 * something to look at before the first mail.
 */
const SAMPLE =
  "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8Yy3ZHbMkQ2XWGvJ8E_SkwT_9TE3jLsNfIndZoIyAPTQ";

const input = byId<HTMLTextAreaElement>("token");
const action = byId<HTMLSelectElement>("action");
const picked = byId<HTMLSelectElement>("picked");

let judge: ((token: string, action: Action) => Judgement) | undefined;
/** The token as it was picked or pasted, before single characters were changed. */
let original = "";
let question = new AbortController();

input.addEventListener("input", (event) => {
  const { inputType } = event as InputEvent;
  const token = tokenIn(input.value);
  // What is pasted is the start of something else; what is typed is a change of what is there.
  if (inputType === "insertFromPaste" || original === "") original = token;
  if (token !== input.value.trim()) input.value = token;
  show();
});
action.addEventListener("change", show);
picked.addEventListener("change", () => {
  if (picked.value !== "") take(picked.value, picked.selectedOptions[0]?.dataset.action);
});
byId("change").addEventListener("click", changeOne);
byId("undo").addEventListener("click", () => take(original, undefined));

try {
  const keys = (await (await fetch("/keys.json")).json()) as { publicKeys: string[] };
  judge = makeJudge(keys.publicKeys);
} catch {
  say(
    byId("token-note"),
    "The edge does not answer, so there is no public key to verify with. " +
      "Load this page anew later.",
  );
}
await offer();
setInterval(() => {
  const shown = document.getElementById("expiry");
  const expiry =
    shown === null ? undefined : judge?.(input.value, chosen()).parts?.unverifiedExpiresAt;
  if (shown === null || expiry === undefined) return;
  const text = countdown(expiry);
  // The second in which it expires changes the verdict.
  if (text.startsWith("expired") && !(shown.textContent ?? "").startsWith("expired")) show();
  else say(shown, text);
}, 1000);

/** Fills the list with the newest mails. */
async function offer(): Promise<void> {
  let mails: Mail[] = [];
  try {
    mails = (await (await fetch("/demo/mails")).json()) as Mail[];
  } catch {
    say(byId("token-note"), "The inbox does not answer. Paste a link instead.");
  }
  for (const mail of mails) {
    const { link, action } = mail;
    const label = `${action}, ${mail.to.slice(0, 40)}`;
    picked.append(element("option", { value: tokenIn(link), "data-action": action }, label));
  }
  picked.append(
    element(
      "option",
      { value: SAMPLE, "data-action": "activate" },
      "activate, v1, of the test vectors",
    ),
  );
  // What somebody pasted while the inbox was asked stays.
  if (input.value !== "") {
    show();
    return;
  }
  const [newest] = mails;
  take(tokenIn(newest?.link || SAMPLE), newest?.action || "activate");
}

function take(token: string, wanted: string | undefined): void {
  original = token;
  input.value = token;
  if (wanted !== undefined) action.value = wanted;
  say(byId("token-note"), "");
  show();
}

/** The token of a link, or the text itself. */
function tokenIn(text: string): string {
  const trimmed = text.trim();
  const found = /[?&]token=([^&#\s]*)/.exec(trimmed);
  return found?.[1] ?? trimmed;
}

function changeOne(): void {
  const token = input.value;
  if (token === "") return;
  const [where = 0, which = 0] = crypto.getRandomValues(new Uint32Array(2));
  const at = where % token.length;
  const others = ALPHABET.replace(token[at] ?? "", "");
  const character = others[which % others.length] ?? "A";
  input.value = token.slice(0, at) + character + token.slice(at + 1);
  say(byId("token-note"), `Character ${at + 1} is now ${character} and was ${token[at]}.`);
  show();
}

function chosen(): Action {
  return actionOf(`/${action.value}`) ?? "activate";
}

function show(): void {
  const token = input.value;
  byId<HTMLButtonElement>("undo").disabled = token === original;
  if (judge === undefined) return;
  const judgement = judge(token, chosen());
  drawVerdict(judgement);
  drawFacts(token, judgement);
  drawBytes(token, original);
  question.abort();
  if (judgement.verdict === "open") void second(token);
}

/** What the page cannot judge the edge can, a moment after the last change. */
async function second(token: string): Promise<void> {
  question = new AbortController();
  const { signal } = question;
  try {
    await new Promise((resolve) => setTimeout(resolve, 200));
    if (signal.aborted) return;
    const { good, words, milliseconds } = await askEdge(token, chosen(), signal);
    const note = `${words}, in ${Math.max(1, Math.round(milliseconds))} ms there and back`;
    byId("checks").append(drawCheck({ name: "edge", state: good ? "passed" : "failed", note }));
  } catch {
    if (!signal.aborted)
      byId("checks").append(drawCheck({ name: "edge", state: "open", note: "does not answer" }));
  }
}
