import { en } from "./texts/en.js";

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

/** What is said of a new password: of a wrong one its title and text. */
export interface PasswordTexts extends Message {
  /** The label of the field. */
  readonly label: string;
  /** Below the field. */
  readonly hint: string;
  /** Beside the box that shows what is typed. */
  readonly show: string;
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
  /** What is said of a new password; in its texts `{min}` and `{max}` stand for numbers. */
  readonly password: PasswordTexts;
  /** The label of the field for the digits that the browser shows that asked for the link. */
  readonly browserCode: string;
  /** Below the heading of the form in another browser than that which asked for the link. */
  readonly elsewhere: string;
  /** The same where the action has a code, too. */
  readonly elsewhereWithCode: string;
  /** Below the heading once it is done. */
  readonly close: string;
  /** The link to where a new link is asked for. */
  readonly newLink: string;
  /** Once a new link was asked for by the button of that name: it may have been sent. */
  readonly renewed: Message & { readonly button: string };
  /** The link to where people sign in. */
  readonly signIn: string;
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
    | (Texts[Name] extends string ? string : Partial<Texts[Name]>)
    | undefined;
} & { readonly actions?: { readonly [action: string]: Partial<ActionTexts> } | undefined };

/** The language in which all others are written where they have no text. */
const FIRST = "en";

/** @internal Languages that are loaded when a visitor asks for one of them. */
export interface LateLanguages {
  readonly names: readonly string[];
  readonly load: () => Promise<{ readonly [language: string]: Texts }>;
}

/** @internal The languages that a handler's pages speak. */
export interface Languages {
  has(language: string): boolean;
  /** Its texts; English, and what failed, where they cannot be loaded. */
  textsOf(language: string): Promise<Spoken>;
}

/** @internal Texts, and their language. */
export interface Spoken {
  readonly language: string;
  readonly texts: Texts;
  readonly failure?: { readonly error: unknown };
}

/** @internal English, the languages that are loaded late, if any, and texts of one's own. */
export function languagesWith(
  own: { readonly [language: string]: OwnTexts },
  late?: LateLanguages,
): Languages {
  const spoken = new Map<string, Spoken>();
  const known = new Set<string>([FIRST, ...(late?.names ?? []), ...Object.keys(own)]);
  return {
    has: (language) => known.has(language),
    async textsOf(language) {
      const kept = spoken.get(language);
      if (kept) return kept;
      const mine = Object.hasOwn(own, language) ? own[language] : {};
      try {
        const made = { language, texts: merged(await builtIn(language, late), mine as OwnTexts) };
        spoken.set(language, made);
        return made;
      } catch (error) {
        const texts = merged(en, own[FIRST] ?? {});
        return { language: FIRST, texts, failure: { error } };
      }
    },
  };
}

/** The texts to which those of one's own are added. */
async function builtIn(language: string, late?: LateLanguages): Promise<Texts> {
  if (!late?.names.includes(language)) return en;
  return (await late.load())[language] as Texts;
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
