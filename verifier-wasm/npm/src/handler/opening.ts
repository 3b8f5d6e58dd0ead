import { InvalidArgumentError } from "../errors/errors.js";
import type { Judgement } from "./judgement.js";
import { HEARING, KEEPING } from "./keeping.js";
import type { Texts } from "./texts.js";

/** A public key in text. */
const KEY = /^mrpk_[\w-]{43}$/;

/**
 * Of links whose token is behind `#`, which is in no request: takes it out of the address, checks
 * the signature of v3 (token-format.md), and sends it in a body, to be shown the form. A browser
 * that cannot check leaves it to the server, as all else about the token.
 */
const SCRIPT = `{${KEEPING}
  const token = location.hash.replace(/^#(\\W*token(?:=|%3d))?|&(?!#).*/gi, "") || recall();
  if (/^[\\w-]{86,168}$/.test(token)) keep(token);
  else history.replaceState(null, "", url);${HEARING}
  const bytes = (text) => {
    const decoded = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return Uint8Array.from(decoded, (character) => character.charCodeAt(0));
  };
  const isForged = async () => {
    if (!/^[\\w-]{147}(?:[\\w-]{21})?$/.test(token)) return false;
    const all = bytes(token);
    const domain = new TextEncoder().encode("mailroom/v3 link\\0");
    const signed = new Uint8Array([...domain, ...all.slice(0, -64)]);
    for (const name of KEYS) {
      const key = await crypto.subtle.importKey("raw", bytes(name), "Ed25519", false, ["verify"]);
      if (await crypto.subtle.verify("Ed25519", key, all.slice(-64), signed)) return false;
    }
    return true;
  };
  const forged = isForged().catch(() => false);
  addEventListener("DOMContentLoaded", async () => {
    const id = token === "" ? "error" : (await forged) ? "invalid" : "";
    if (id !== "") {
      document.getElementById(id).hidden = false;
      return;
    }
    show(token);
  });
}`;

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
  const script = SCRIPT.replace("KEYS", JSON.stringify(raw));
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
