// The script of the pages to which a link leads. It judges the token once more, with nothing but
// public keys; the page works without it.

import { createVerifier } from "mailroom-verifier/public";

import { actionOf, FURTHER } from "../../edge/actions.ts";
import { element } from "./element.ts";
import { left } from "./time.ts";

const form = document.querySelector<HTMLFormElement>("#redeem");
if (form !== null) {
  const token = form.querySelector<HTMLInputElement>('input[name="token"]')?.value ?? "";
  const { version, isPublic, publicKeys = "", expiresAt } = form.dataset;
  check(isPublic === "true" ? judge(token, publicKeys) : cannot(version));
  if (expiresAt) countDown(Number(expiresAt));
  // The answer to a second press would take the place of the first one's.
  let isPressed = false;
  form.addEventListener("submit", () => {
    isPressed = true;
    for (const button of form.querySelectorAll("button")) button.disabled = true;
  });
  // A browser that goes back shows the page as it was left. The first event of this kind comes once
  // the page is complete, which may be after the press.
  addEventListener("pageshow", ({ persisted }) => {
    if (isPressed && !persisted) return;
    isPressed = false;
    for (const button of form.querySelectorAll("button")) button.disabled = false;
  });
  form.querySelector<HTMLInputElement>("#code")?.focus();
}

interface Check {
  readonly state: "passed" | "failed" | "cannot";
  readonly text: string;
}

function judge(token: string, publicKeys: string): Check {
  const action = actionOf(location.pathname) ?? "activate";
  try {
    const verifier = createVerifier({ keys: publicKeys.split(" "), actions: FURTHER });
    const started = performance.now();
    const result = verifier.tryVerifyLink(token, { action });
    const microseconds = Math.round((performance.now() - started) * 1000);
    return result.ok
      ? {
          state: "passed",
          text: `This page has verified it, too, with the public key, in ${microseconds} µs.`,
        }
      : { state: "failed", text: `This page does not believe it: ${result.reason}.` };
  } catch {
    return {
      state: "cannot",
      text: "This browser runs no WebAssembly; the edge has checked the link all the same.",
    };
  }
}

function cannot(version: string | undefined): Check {
  return {
    state: "cannot",
    text: `A v${version} link needs the shared key, which no page may hold.`,
  };
}

function check({ state, text }: Check): void {
  const mark = { passed: "✓", failed: "✗", cannot: "–" }[state];
  const spoken = { passed: "passed", failed: "failed", cannot: "cannot be judged here" }[state];
  document
    .querySelector("#checks")
    ?.append(
      element(
        "li",
        { class: `check check-${state}`, id: "page-check" },
        element("span", { class: "mark", "aria-hidden": "true" }, mark),
        element(
          "span",
          {},
          element("span", { class: "by" }, "page"),
          ` ${text}`,
          element("span", { class: "visually-hidden" }, ` (${spoken})`),
        ),
      ),
    );
}

function countDown(until: number): void {
  const note = document.querySelector("#countdown");
  if (note === null) return;
  const show = () => {
    const remaining = left(until);
    note.textContent =
      remaining === undefined
        ? "This link has expired. Ask for another one."
        : `Valid for ${remaining}.`;
    if (remaining === undefined) clearInterval(timer);
  };
  const timer = setInterval(show, 1000);
  show();
}
