import { BETWEEN } from "./codes.js";
import SHOWING from "./in_page/showing.page.js";
import STYLE from "./in_page/style.css";
import type { Judgement } from "./judgement.js";
import { type Memory, scriptOf } from "./keeping.js";
import { openingBody, openingHead } from "./opening.js";
import type { Page } from "./options.js";
import { passwordField } from "./password.js";
import { cleanAddress, RENEW, SCRIPT, withoutScript } from "./request.js";
import type { ReadSite } from "./site.js";
import type { Message, Texts } from "./texts.js";

/** What a page has to know beside what it says. */
export interface Setting {
  /** The address that was asked for. */
  readonly url: URL;
  /** The token that has to leave the address, by a redirect where there are no scripts. */
  readonly leaving: string | undefined;
  readonly memory: Memory;
  /** Whether tokens may come behind `#`. */
  readonly hears: boolean;
  readonly site: ReadSite | undefined;
}

/** The document of a judgement. */
export async function documentOf(
  judgement: Judgement<string>,
  own: Page<string> | undefined,
  setting: Setting,
): Promise<string> {
  const form = judgement.page === "form" ? formOf(judgement, setting.url) : "";
  const head = headOf(judgement, setting);
  const builtIn = () => standard(judgement, form, head, setting);
  if (own === undefined) return builtIn();
  const made: unknown =
    typeof own === "string" ? filled(own, judgement, form) : await own(judgement, form);
  if (made === undefined) return builtIn();
  if (typeof made !== "string")
    throw new TypeError("a function in the option pages must return a string, or undefined");
  return withHead(made, head);
}

/** The document that reads a token behind `#`. */
export function openingDocument(
  judgement: Judgement<string>,
  texts: Texts,
  keys: readonly string[],
  site: ReadSite | undefined,
): string {
  return framed(judgement, openingHead(judgement, keys), openingBody(texts, escaped), site);
}

/** The document that goes to an address by itself, also without script. */
export function onwardDocument(
  judgement: Judgement<string>,
  { title, text }: Message,
  address: string,
  setting: Setting,
): string {
  const refresh = `<meta http-equiv="refresh" content="${escaped(`0;url="${address}"`)}">`;
  return framed(
    { ...judgement, title },
    headOf(judgement, setting) + refresh,
    `<h1>${escaped(title)}</h1>
<p>${escaped(text)}</p>
<p><a href="${escaped(address)}">${escaped(title)}</a></p>`,
    setting.site,
  );
}

/** Comes before everything that a page loads. Programs that delay scripts leave it alone. */
function headOf(
  { nonce, password }: Judgement<string>,
  { url, leaving, memory, hears }: Setting,
): string {
  const code = scriptOf(memory, hears) + (password ? `(${SHOWING})();` : "");
  const script = `<script nonce="${nonce}" data-cfasync="false">${code}</script>`;
  if (leaving === undefined) return script;
  const address = escaped(withoutScript(url, leaving));
  return `${script}<noscript><meta http-equiv="refresh" content="0;url=${address}"></noscript>`;
}

function formOf(judgement: Judgement<string>, url: URL): string {
  const { token, codeDigits, codeLabel, browserCodeDigits, browserCodeLabel } = judgement;
  const { password, button, problem } = judgement;
  const isWrong = problem === "wrongCode" || problem === "missingCode";
  const code = fieldOf("code", codeLabel, codeDigits, isWrong);
  const browserCode = fieldOf("browser_code", browserCodeLabel, browserCodeDigits, isWrong);
  const newPassword = password ? passwordField(password, problem === "password", escaped) : "";
  return `<form method="post" action="${escaped(cleanAddress(url))}">
<input type="hidden" name="token" value="${escaped(token ?? "")}">
<noscript><input type="hidden" name="${SCRIPT}" value="no"></noscript>
${code}${browserCode}${newPassword}<p><button>${escaped(button)}</button></p>
</form>`;
}

/** A field for digits, which takes what `digitsOf` takes. */
function fieldOf(name: string, label: string, digits: number, isWrong: boolean): string {
  if (digits === 0) return "";
  // The code of a mail is what a browser may offer.
  const offered = name === "code" ? "one-time-code" : "off";
  const invalid = isWrong ? ' aria-invalid="true"' : "";
  return `<p><label for="${name}">${escaped(label)}</label>
<input id="${name}" name="${name}" inputmode="numeric" autocomplete="${offered}"
 pattern="[${BETWEEN}]*(\\p{Nd}[${BETWEEN}]*){${digits}}" maxlength="40" required${invalid}></p>
`;
}

function standard(
  judgement: Judgement<string>,
  form: string,
  head: string,
  { site, url }: Setting,
): string {
  const { title, text, problem, ways, renew } = judgement;
  const again = renew
    ? `<form method="post" action="${escaped(cleanAddress(url))}">
<input type="hidden" name="token" value="${escaped(renew.token)}">
<p><button name="${RENEW}" value="yes">${escaped(renew.button)}</button></p>
</form>
`
    : "";
  const on = ways.map(
    ({ address, label }) => `<p><a href="${escaped(address)}">${escaped(label)}</a></p>\n`,
  );
  const role = problem === undefined ? "" : ` role="alert"`;
  return framed(
    judgement,
    head,
    `<h1>${escaped(title)}</h1>\n<p${role}>${escaped(text)}</p>\n${form}${again}${on.join("")}`,
    site,
  );
}

function framed(
  { language, title, nonce }: Judgement<string>,
  head: string,
  body: string,
  { name, logo, style }: Partial<ReadSite> = {},
): string {
  // The logo says nothing that the name beside it does not say.
  const image = logo
    ? `<img src="${escaped(logo)}" alt="" height="32" referrerpolicy="no-referrer"> `
    : "";
  // The heading says from which side the page is read: what is in `bdi` is left out of that.
  const header = name ? `<header>${image}<bdi>${escaped(name)}</bdi></header>\n` : "";
  return `<!doctype html>
<html lang="${escaped(language)}">
<head>
<meta charset="utf-8">
${head}
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${escaped(name ? `${title} – ${name}` : title)}</title>
<style nonce="${nonce}">${STYLE}${style ?? ""}</style>
</head>
<body dir="auto">
${header}<main>
${body}
</main>
</body>
</html>
`;
}

/** `{{title}}` and others are replaced, each by text that is escaped. */
function filled(page: string, judgement: Judgement<string>, form: string): string {
  return page.replace(/\{\{(form|title|text|language|nonce)\}\}/g, (_, name: string) =>
    name === "form" ? form : escaped(String(judgement[name as "title"])),
  );
}

/** After the start of the head, or where a document without tags begins. */
function withHead(page: string, head: string): string {
  const [start = ""] =
    /^\s*(?:<!doctype[^>]*>)?\s*(?:<html[^>]*>)?\s*(?:<head[^>]*>)?/i.exec(page) ?? [];
  return start + head + page.slice(start.length);
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
