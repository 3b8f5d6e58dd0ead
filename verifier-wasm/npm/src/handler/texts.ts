import { de } from "./texts/de.js";
import { en } from "./texts/en.js";
import { es } from "./texts/es.js";
import { fr } from "./texts/fr.js";
import { it } from "./texts/it.js";
import { nl } from "./texts/nl.js";
import { pl } from "./texts/pl.js";
import { pt } from "./texts/pt.js";

/** A page's heading, and what is below it. */
export interface Message {
  readonly title: string;
  readonly text: string;
}

/** What the pages of an action say. */
export interface ActionTexts extends Message {
  readonly button: string;
  /** The heading once it is done. */
  readonly done: string;
}

/**
 * The texts of the pages in one language. `{digits}` stands for the number of digits of the
 * action's code; in another browser than that which asked for the link, of those that the first one
 * shows.
 */
export interface Texts {
  /** By action; `other` is for actions that are not listed. */
  readonly actions: { readonly other: ActionTexts; readonly [action: string]: ActionTexts };
  /** The label of the field for the code. */
  readonly code: string;
  /** The label of the field for the digits that the browser shows that asked for the link. */
  readonly browserCode: string;
  /** Below the heading of the form in another browser than that which asked for the link. */
  readonly elsewhere: string;
  /** The same where the action has a code, too. */
  readonly elsewhereWithCode: string;
  /** Below the heading once it is done. */
  readonly close: string;
  /** Beside a link, while the browser goes where `redeem` redirects; the heading is the link's. */
  readonly onward: Message;
  /** The link is cut, forged, for another page, or unknown to the database. */
  readonly invalid: Message;
  readonly expired: Message;
  readonly used: Message;
  /** Too many codes were tried. */
  readonly locked: Message;
  /** The same in other browsers than that which asked for the link; there it still works. */
  readonly lockedElsewhere: string;
  /** The account cannot use the link now. */
  readonly ineligible: Message;
  /**
   * The request is none that a page of the handler makes, or the address has no token: what was
   * done before is not known.
   */
  readonly error: Message;
  /** The site is not set up. */
  readonly failure: Message;
  /** The browser runs no scripts and keeps no cookies. */
  readonly blocked: Message;
  /** The token is behind `#`, and the browser runs no scripts. */
  readonly scripts: Message;
  readonly wrongCode: Message;
  readonly missingCode: Message;
  /**
   * The same of a form with a code and the digits of the other browser, which are judged together.
   */
  readonly wrongCodes: Message;
  readonly missingCodes: Message;
  /** Nothing was done, since something is away. */
  readonly away: Message;
  /** Whether it was done is not known. */
  readonly unknown: Message;
}

/**
 * Texts of one's own: of a language that is built in, those that are to differ; of another one,
 * English for the rest.
 */
export type OwnTexts = {
  readonly [Name in Exclude<keyof Texts, "actions">]?:
    | (Texts[Name] extends string ? string : Partial<Message>)
    | undefined;
} & { readonly actions?: { readonly [action: string]: Partial<ActionTexts> } | undefined };

/** @internal By language. */
export type Languages = ReadonlyMap<string, Texts>;

const BUILT_IN = { en, de, fr, es, it, pt, nl, pl };
const FIRST = "en";

/** @internal The languages that are built in, with texts of one's own. */
export function languagesWith(own: { readonly [language: string]: OwnTexts }): Languages {
  const languages = new Map<string, Texts>(Object.entries(BUILT_IN));
  for (const [language, texts] of Object.entries(own)) {
    languages.set(language, merged(languages.get(language) ?? en, texts));
  }
  return languages;
}

function merged(base: Texts, own: OwnTexts): Texts {
  const texts: Record<string, unknown> = { ...base };
  for (const [name, given] of Object.entries(own)) {
    const { actions } = base;
    if (name === "actions") {
      const of = given as { readonly [action: string]: Partial<ActionTexts> };
      const entries = Object.entries(of).map(([action, words]) => [
        action,
        { ...(actions[action] ?? actions.other), ...words },
      ]);
      texts[name] = { ...actions, ...Object.fromEntries(entries) };
    } else {
      texts[name] =
        typeof given === "object" ? { ...(base[name as keyof Texts] as Message), ...given } : given;
    }
  }
  return texts as unknown as Texts;
}

/**
 * @internal The language of the header `Accept-Language` that there are texts of (RFC 9110,
 * section 12.5.4).
 */
export function languageFor(header: string | null, languages: Languages): string {
  let best = FIRST;
  let weight = 0;
  // No browser lists that many; a longer header is cut.
  for (const range of (header ?? "").slice(0, 512).split(",")) {
    const [tag = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    const quality = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1";
    if (!/^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(quality) || Number(quality) <= weight)
      continue;
    const found = [tag, tag.split("-", 1)[0] as string].find((name) => languages.has(name));
    if (found === undefined) continue;
    best = found;
    weight = Number(quality);
  }
  return best;
}
