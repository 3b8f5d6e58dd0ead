// The pages that a link leads to. Each works without its scripts: the first takes the token out of
// the address, before anything else is loaded, the second checks it once more.

import type { Action } from "./actions.ts";
import { FORMATS, type Version } from "./formats.ts";
import { type Html, html } from "./html.ts";
import type { Refusal } from "./refusals.ts";

const TYPE = { "Content-Type": "text/html; charset=utf-8" };

const WORDS = {
  activate: {
    title: "Activate your account",
    lead:
      "Press the button, and the account is active. Nothing has happened yet: " +
      "opening a link changes nothing.",
    button: "Activate my account",
    done: "Your account is active",
  },
  recover: {
    title: "Recover your account",
    lead: "Type the five digits of the mail. Five tries are counted in all.",
    button: "Recover my account",
    done: "Your account is recovered",
  },
  invite: {
    title: "Join the team",
    lead:
      "Press the button, and you are in the team. Nothing has happened yet: " +
      "opening a link changes nothing.",
    button: "Join the team",
    done: "You have joined the team",
  },
} as const satisfies Record<Action, Record<string, string>>;

/** What was found, and by whom. */
export interface Check {
  readonly by: "edge" | "origin" | "serve";
  /** `undefined`: it cannot say. */
  readonly passed: boolean | undefined;
  readonly text: string;
}

export interface Form {
  readonly action: Action;
  readonly token: string;
  readonly version: Version;
  readonly expiresAt: number | undefined;
  readonly publicKeys: string;
}

/** The page with the button. */
export function formPage(form: Form, checks: readonly Check[], refusal?: Refusal): Response {
  const words = WORDS[form.action];
  const body = html`
    <h1>${refusal?.title ?? words.title}</h1>
    <p${refusal ? html` role="alert" class="alert"` : undefined}>${refusal?.text ?? words.lead}</p>
    <form method="post" action="/${form.action}" id="redeem" data-public-keys="${form.publicKeys}"
      data-version="${form.version}"
      data-is-public="${String(FORMATS[form.version].isPublic)}"
      data-expires-at="${form.expiresAt}">
      <input type="hidden" name="token" value="${form.token}">
      ${form.action === "recover" ? CODE : undefined}
      <p><button>${words.button}</button></p>
    </form>
    <p id="countdown" class="note"></p>
    ${list(checks)}`;
  return page(refusal?.status ?? 200, refusal?.title ?? words.title, body);
}

const CODE = html`
  <p class="field">
    <label for="code">Code</label>
    <input id="code" name="code" inputmode="numeric" autocomplete="one-time-code" size="9" required
      title="five digits">
  </p>`;

/** It worked. */
export function donePage(action: Action, checks: readonly Check[]): Response {
  const { done } = WORDS[action];
  const body = html`
    <h1>${done}</h1>
    <p>You can close this page. The link in the mail opens nothing any more.</p>
    ${list(checks)}`;
  return page(200, done, body);
}

/** It did not, and pressing again would not help. */
export function refusalPage(
  refusal: Refusal,
  reason: string | undefined,
  checks: readonly Check[],
): Response {
  const body = html`
    <h1>${refusal.title}</h1>
    <p role="alert" class="alert">${refusal.text}</p>
    ${reason === undefined ? undefined : html`<p class="note">Reason: <code>${reason}</code></p>`}
    ${list(checks)}`;
  return page(refusal.status, refusal.title, body);
}

/** Something about the request itself is wrong. */
export function errorPage(status: number, title: string, text: string, headers = {}): Response {
  return page(status, title, html`<h1>${title}</h1><p>${text}</p>`, headers);
}

const MARKS = { true: "✓", false: "✗", undefined: "–" };
const SPOKEN = { true: "passed", false: "failed", undefined: "cannot be judged here" };

function list(checks: readonly Check[]): Html {
  const items = checks.map(({ by, passed, text }) => {
    const state = String(passed) as keyof typeof MARKS;
    const spoken = html`<span class="visually-hidden"> (${SPOKEN[state]})</span>`;
    return html`<li class="check check-${SPOKEN[state].split(" ")[0]}">
      <span class="mark" aria-hidden="true">${MARKS[state]}</span>
      <span><span class="by">${by}</span> ${text}${spoken}</span></li>`;
  });
  return html`<h2>What was checked</h2><ul class="checks" id="checks">${items}</ul>`;
}

function page(status: number, title: string, body: Html, headers = {}): Response {
  const { text } = html`<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width">
  <meta name="color-scheme" content="light dark">
  <meta name="robots" content="noindex">
  <script src="/assets/address.js"></script>
  <title>${title} · Mailroom</title>
  <link rel="icon" href="/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/style.css">
  <script type="module" src="/assets/link.js"></script>
</head>
<body class="narrow">
  <main>${body}
    <p class="note"><a href="/">The demonstration</a></p>
  </main>
</body>
</html>
`;
  return new Response(text, { status, headers: { ...TYPE, ...headers } });
}
