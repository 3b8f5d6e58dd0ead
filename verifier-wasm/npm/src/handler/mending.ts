// Links as mail programs, gateways and people leave them. Only text that is no token is mended, and
// only the handler mends: what it makes is judged by the verifier, which accepts one spelling of a
// token (token-format.md, "One token, one spelling").
//
// Anybody can send these texts, so each step takes time in proportion to the text.

import { LENGTHS } from "../token/version.js";

/**
 * The lengths by how a token begins: of v2 and v3 the first two bytes tell version and binding. A
 * token of v1 begins with any text.
 */
const BEGINNINGS: readonly (readonly [RegExp, readonly number[]])[] = [
  [/^A[g-n]/, [104, 124]],
  [/^A[o-v]/, [126, 146]],
  [/^A[w-z0-3]/, [147]],
  [/^A[4-9_-]/, [168]],
  [/^/, [86]],
];

/** How many texts are judged at most in place of one that is no token. */
const MOST = 4;

/** How many texts may be the token of one request. */
const MOST_SENT = 8;

/** A text that is longer is no token with something around it. */
const LONGEST = 2_000;

/** Whether a text has the length and the characters of a token. */
export function isToken(text: string): boolean {
  return LENGTHS.includes(text.length) && /^[\w-]*$/.test(text);
}

/**
 * What a text may have been before a mail program changed it, the likeliest first: tokens, or the
 * text itself where it is one or where nothing can be made of it. `isForm`: whether `+` has become
 * a blank, as it does in a form.
 */
function candidatesOf(text: string, isForm = false): readonly string[] {
  if (isToken(text) || text.length > LONGEST) return [text];
  const plain = plainOf(text);
  // Base64 of the other alphabet. Before blanks are taken out, which `+` may look like.
  const converted = plain
    .trim()
    .replace(isForm ? /[+ ]/g : /\+/g, "-")
    .replaceAll("/", "_");
  const printed = plain
    .replace(/=[ \t]*(?:\r\n?|\n)/g, "")
    .replace(/=([\dA-F]{2})/gi, (_, code: string) => character(code, 16));
  // A word that was divided at the end of a line.
  const joined = plain.replace(/-[ \t]*[\r\n]+/g, "");
  const forms = [plain, converted, printed, joined].map((form) => ({
    whole: form.replace(/[^\w-]+/g, ""),
    start: startOf(form),
  }));
  const made = forms.flatMap(({ whole, start }) => [whole, start]);
  const found = new Set(
    // Whole texts come before parts of them, to which something was joined without a sign between.
    [...made.flatMap(wholes), ...made.flatMap(parts)].filter(
      (candidate) =>
        lengthsOf(candidate).includes(candidate.length) ||
        // A token of v1 may begin as others do, where nothing but signs was taken out.
        forms.some(({ whole }) => whole === candidate),
    ),
  );
  return found.size === 0 ? [text] : [...found].slice(0, MOST);
}

/** The lengths of the token that a text begins with. */
function lengthsOf(text: string): readonly number[] {
  return BEGINNINGS.find(([beginning]) => beginning.test(text))?.[1] ?? [];
}

/** A token with nothing but signs around it, which may be some of its own. */
function wholes(made: string): string[] {
  // Quoted-printable writes the equals sign in front of a token so.
  return [made, made.replace(/^3D/i, "")].flatMap((text) =>
    LENGTHS.flatMap((length) => {
      const over = text.length - length;
      // Signs of emphasis come in pairs.
      const cuts = [over / 2, 0, over].filter(
        (cut) =>
          Number.isInteger(cut) &&
          cut >= 0 &&
          /^[_-]*$/.test(text.slice(0, cut) + text.slice(cut + length)),
      );
      return cuts.map((cut) => text.slice(cut, cut + length));
    }),
  );
}

/** A token at the beginning of a longer text, by the length that its first bytes tell. */
function parts(made: string): string[] {
  return [made, made.replace(/^[_-]+|^3D/i, "")].flatMap((text) =>
    lengthsOf(text)
      .filter((length) => length < text.length)
      .map((length) => text.slice(0, length)),
  );
}

/**
 * The tokens of an address, as they stand there. Their name may have been spelt otherwise, and
 * their separators encoded once more, by a rewriter of links.
 */
export function tokensOf(url: URL): readonly string[] {
  const values = [...partsOf(url).ofToken].map(valueIn);
  const given = values.filter((value) => value !== "");
  return given.length > 0 ? given : values;
}

/** The path and the query of an address without what has a token. */
export function withoutTokens(url: URL): {
  readonly path: string;
  readonly query: URLSearchParams;
} {
  const { path, ofToken } = partsOf(url);
  const others = pairsOf(url).filter((pair) => !ofToken.has(pair));
  return { path, query: new URLSearchParams(others.join("&")) };
}

/** The path of an address, decoded, without a query in it. */
export function pathOf(url: URL): string {
  return decoded(partsOf(url).path);
}

/**
 * From where a path has the query, whose separators were encoded once more, by percent signs or as
 * quoted-printable, or are others.
 */
const QUERY_IN_PATH = /(?:%(?:25)*(?:3f|23|26|3b)|=3f|[&;]).*$/is;

/** A name of the token, as mail programs leave that, and its value. */
const NAMED = /^(?:[^=]*[^\w=-])?token[^\w=-]*=(.*)$/is;

/** The same somewhere in a text, before what is as long as a token. */
const WITHIN = /(?:^|[^\w-])token[^\w-]*=(.{80,})$/is;

/** A token without a name, as it is behind `#`. */
const BARE = /^[\w-]{80,}/;

/** The signs of links that HTML has names for, beside the ampersand. */
const SIGNS: Readonly<Record<string, string>> = {
  equals: "=",
  period: ".",
  hyphen: "-",
  lowbar: "_",
  quest: "?",
  sol: "/",
  colon: ":",
  num: "#",
};

/** Their names, as a part of a regular expression. */
export const SIGN_NAMES = Object.keys(SIGNS).join("|");

const SIGN = new RegExp(`&(${SIGN_NAMES});`, "g");
const SIGN_OR_AMPERSAND = new RegExp(`&(amp|${SIGN_NAMES});`, "g");

/** What an address is made of. */
interface Parts {
  /** The path without a query in it. */
  readonly path: string;
  /** The pairs of the query that have a token: by their name, or else in their value. */
  readonly ofToken: ReadonlySet<string>;
}

/** The pairs of the query. What is named by its sign begins no pair by that sign's name. */
function pairsOf({ search }: URL): string[] {
  return search.slice(1).replace(SIGN, signNamed).split("&");
}

function partsOf(url: URL): Parts {
  // Signs that a path may have; those before a query are found below.
  const pathname = url.pathname.replace(/&(equals|period|hyphen|lowbar|sol|colon);/g, signNamed);
  const [inPath = ""] = QUERY_IN_PATH.exec(pathname) ?? [];
  const [, ...texts] = decoded(inPath.replace(/^=3f/i, "?")).split(/[?#&;]/);
  const isQuery = texts.some((text) => NAMED.test(text) || BARE.test(text));
  const pairs = [...(isQuery ? texts : []), ...pairsOf(url)];
  const named = pairs.filter((pair) => NAMED.test(decoded(pair)));
  const has = (pair: string) => WITHIN.test(decoded(pair)) || BARE.test(pair);
  return {
    path: isQuery ? pathname.slice(0, -inPath.length) : pathname,
    ofToken: new Set(named.length > 0 ? named : pairs.filter(has)),
  };
}

function valueIn(pair: string): string {
  const text = decoded(pair);
  return (NAMED.exec(text) ?? WITHIN.exec(text))?.[1] ?? text;
}

/**
 * What the token of a request may have been, given what stands in its address and in its form;
 * nothing where two texts are of different tokens, or where there are more than a link has.
 */
export function tokenIn(
  address: readonly string[],
  form: readonly string[] = [],
): readonly string[] | undefined {
  if (form.length + address.length > MOST_SENT) return undefined;
  const [first = [], ...others] = [
    ...form.map((text) => candidatesOf(text, true)),
    ...address.map((text) => candidatesOf(text)),
  ];
  const shared = first.filter((text) => others.every((list) => list.includes(text)));
  return shared.length === 0 ? undefined : shared;
}

/** Without tags of line breaks, and with the plain letters and hyphens that programs replace. */
function plainOf(text: string): string {
  return (
    decoded(text)
      .replace(/<\/?[a-z]{1,9}\s*\/?>/gi, "")
      // One by one: many marks on one letter would be sorted.
      .replace(/\P{ASCII}/gu, (character) => character.normalize("NFKC"))
      .replaceAll("\u2014", "--")
      .replace(/[\p{Pd}\u2212]/gu, "-")
  );
}

/**
 * Decodes percent signs, also of what was encoded up to three times, and escapes of HTML and JSON.
 */
function decoded(text: string): string {
  let plain = text;
  for (let time = 0; time < 3 && /%[\da-f]{2}/i.test(plain); time += 1) {
    plain = plain.replace(/(?:%[\da-f]{2})+/gi, (codes) => {
      try {
        return decodeURIComponent(codes);
      } catch {
        // Bytes that are no UTF-8, such as a no-break space of Latin-1.
        return codes.replace(/%(..)/g, (_, code: string) => character(code, 16));
      }
    });
  }
  return plain
    .replace(/(?:&#x|\\u)([\da-f]{1,4});?/gi, (_, code: string) => character(code, 16))
    .replace(/&#(\d{1,5});?/g, (_, code: string) => character(code, 10))
    .replace(SIGN_OR_AMPERSAND, signNamed);
}

function signNamed(_reference: string, name: string): string {
  return SIGNS[name] ?? "&";
}

function character(code: string, base: number): string {
  return String.fromCharCode(Number.parseInt(code, base));
}

/** The characters before the first that no token has, without those in front. */
function startOf(text: string): string {
  return /[\w-]+/.exec(text)?.[0] ?? "";
}
