// What the pages have of the site that they belong to: its name, logo and colour, and the ways on
// from a page that has come to its end.

import { described } from "../arguments/described.js";
import { readOptions, unreadable } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { Outcome } from "./outcomes.js";
import type { Texts } from "./texts.js";

/** A link of a page to somewhere else. */
export interface Way {
  readonly address: string;
  readonly label: string;
}

/** @internal The option `site`, read once. */
export interface ReadSite {
  readonly name: string;
  readonly logo: string | undefined;
  /** The source of the logo, for the policy. */
  readonly images: string | undefined;
  /** What the page's style has beside that of all pages. */
  readonly style: string;
  readonly signIn: string | undefined;
  readonly newLink: ReadonlyMap<string, string>;
}

/** The backgrounds of the pages, light and dark. */
const BACKS = ["#ffffff", "#16191d"] as const;

/** What text needs against its background (WCAG 2.2, criterion 1.4.3). */
const CONTRAST = 4.5;

/** The host that an address on this site is read with. */
const HERE = "https://here.invalid";

/** The pages from which a new link leads nowhere. */
const WITHOUT_LINK: readonly string[] = ["done", "ineligible", "failure", "renewed"];

/** @internal */
export function readSite(given: unknown): ReadSite | undefined {
  if (given === undefined) return undefined;
  const options = readOptions(given, ["name", "logo", "color", "signIn", "newLink"]);
  const [name = "", logo, color, signIn, newLink = {}] = options;
  if (typeof name !== "string" || name.length > 100 || /\p{Cc}/u.test(name))
    throw wrong("name", "a text of at most 100 characters", name);
  if (logo !== undefined && name === "")
    throw new InvalidArgumentError("site.logo needs site.name, which is read out in its place");
  const image = addressOf(logo, "logo");
  return {
    name,
    logo: image,
    images: image && (image.startsWith("/") ? "'self'" : new URL(image).origin),
    style: color === undefined ? "" : styleOf(color),
    signIn: addressOf(signIn, "signIn"),
    newLink: linksOf(newLink),
  };
}

function linksOf(given: unknown): ReadonlyMap<string, string> {
  let entries: [string, unknown][] | undefined;
  try {
    if (typeof given === "object" && given !== null && !Array.isArray(given))
      entries = Object.entries(given);
  } catch (cause) {
    throw unreadable(cause);
  }
  if (!entries) throw wrong("newLink", 'an object such as { recover: "/forgot" }', given);
  return new Map(
    entries.flatMap(([action, address]) => {
      const read = addressOf(address, `newLink.${action}`);
      return read === undefined ? [] : [[action, read] as const];
    }),
  );
}

/** A path of this site, or an address of https: nothing else gets into a page. */
function addressOf(given: unknown, option: string): string | undefined {
  if (given === undefined) return undefined;
  if (typeof given === "string" && /^(?:\/|https:\/\/)[^\s\\\p{C}]*$/u.test(given)) {
    try {
      const { origin, username, password, href, pathname, search, hash } = new URL(given, HERE);
      // Of two slashes, also those that dots have left, the second would begin a host.
      const isSafe = !given.startsWith("//") && !pathname.startsWith("//");
      if (isSafe && username + password === "")
        return origin === HERE ? pathname + search + hash : href;
    } catch {
      // No address.
    }
  }
  throw wrong(option, 'a path such as "/login", or an address of https', given);
}

function wrong(option: string, what: string, given: unknown): InvalidArgumentError {
  return new InvalidArgumentError(`site.${option} must be ${what}, not ${described(given)}`);
}

/** The colour as accent, in a shade that is read on each background. */
function styleOf(color: unknown): string {
  const hex = typeof color === "string" ? /^#(?:[\da-f]{3}|[\da-f]{6})$/i.exec(color)?.[0] : "";
  if (!hex) throw wrong("color", 'a colour such as "#0b57d0"', color);
  const long = hex.length === 4 ? hex.replace(/[^#]/g, "$&$&") : hex;
  const [light, dark] = BACKS.map((back) => {
    const shade = shadeOf(channelsOf(long), channelsOf(back));
    return `:root { --accent: rgb(${shade}); --on: ${back}; }`;
  });
  return `${light}\n@media (prefers-color-scheme: dark) { ${dark} }\n`;
}

function channelsOf(hex: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

/** Goes towards black on what is light, and towards white on what is dark, as far as is needed. */
function shadeOf(color: readonly number[], back: readonly number[]): readonly number[] {
  const [one, other] = [luminanceOf(color), luminanceOf(back)];
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (contrast >= CONTRAST) return color;
  const end = other > 0.5 ? 0 : 255;
  return shadeOf(
    color.map((channel) => Math.round(channel * 0.9 + end * 0.1)),
    back,
  );
}

/** By WCAG 2.2, "relative luminance". */
function luminanceOf(channels: readonly number[]): number {
  const [red = 0, green = 0, blue = 0] = channels.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @internal Where a page leads on that has no form. */
export function waysOf(
  site: ReadSite | undefined,
  page: Outcome["page"],
  action: string | undefined,
  texts: Texts,
): readonly Way[] {
  if (!site || page === "form" || page === "moved" || page === "response") return [];
  const newLink = WITHOUT_LINK.includes(page) ? undefined : site.newLink.get(action ?? "");
  return [[newLink, texts.newLink] as const, [site.signIn, texts.signIn] as const].flatMap(
    ([address, label]) => (address === undefined ? [] : [{ address, label }]),
  );
}
