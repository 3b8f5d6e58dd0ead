import { InvalidArgumentError } from "../errors/errors.js";
import OPENING from "./in_page/opening.page.js";
import type { Judgement } from "./judgement.js";
import { keepingScript } from "./keeping.js";
import type { Texts } from "./texts.js";

/** A public key in text. */
const KEY = /^mrpk_[\w-]{43}$/;

/** The public keys, as the option `publicKeys` has them, or gives them. */
export function readPublicKeys(given: unknown): readonly string[] {
  try {
    const keys: unknown[] = Array.isArray(given) ? [...given] : [given];
    if (keys.length > 0 && keys.every((key) => typeof key === "string" && KEY.test(key))) {
      return keys as string[];
    }
  } catch {
    // A list that cannot be read.
  }
  throw new InvalidArgumentError(
    "the option publicKeys must be a public key such as mrpk_…, a list, or a function",
  );
}

/** The script of the page, which is in its head. */
export function openingHead({ nonce }: Judgement<string>, keys: readonly string[]): string {
  const raw = keys.map((key) => key.slice("mrpk_".length));
  const script = keepingScript(`(${OPENING})(kept,${JSON.stringify(raw)});`);
  return `<script nonce="${nonce}" data-cfasync="false">${script}</script>`;
}

/** What is in the page: nothing, until the script has decided; without script what to do. */
export function openingBody(texts: Texts, escaped: (text: string) => string): string {
  const said = ({ title, text }: Texts["error"]) =>
    `<h1>${escaped(title)}</h1>\n<p>${escaped(text)}</p>`;
  // First a heading: it says from which side the page is read.
  return `<div id="error" hidden>${said(texts.error)}</div>
<div id="invalid" hidden>${said(texts.invalid)}</div>
<noscript>${said(texts.scripts)}</noscript>`;
}
