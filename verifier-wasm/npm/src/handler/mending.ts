// Links as mail programs, gateways and people leave them. Only text that is no token is mended, and
// only the handler mends: what it makes is judged by the verifier, which accepts one spelling of a
// token (token-format.md, "One token, one spelling").
//
// Anybody can send these texts, so each step takes time in proportion to the text.

import { LENGTHS } from "../token/version.js";
import { character, decoded, narrowed, plainFormsOf, withSigns } from "./escapes.js";

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

/** The length of a token that may begin in any way. */
const OF_V1 = [86];

/** How many texts are judged at most in place of one that is no token. */
const MOST = 4;

/** How many texts may be the token of one request. */
const MOST_SENT = 8;

/** A text that is longer is no token with something around it. */
const LONGEST = 2_000;

/** Whether a text has the characters of a token, and the length that its beginning tells. */
function isToken(text: string): boolean {
  const lengths = [...lengthsOf(text), ...OF_V1];
  return lengths.includes(text.length) && /^[\w-]*$/.test(text);
}

/**
 * What a text may have been before a mail program changed it, the likeliest first: tokens, or the
 * text itself where it is one or where nothing can be made of it. `isForm`: whether `+` has become
 * a blank, as it does in a form.
 */
function candidatesOf(text: string, isForm = false): readonly string[] {
  if (isToken(text) || text.length > LONGEST) return [text];
  const forms = plainFormsOf(text)
    .flatMap((plain) => [plain, ...rewritten(plain, isForm)])
    .map((form) => ({ whole: form.replace(/[^\w-]+/g, ""), start: startOf(form) }));
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

/** What a plain text may have been before its signs were written otherwise. */
function rewritten(plain: string, isForm: boolean): string[] {
  // Base64 of the other alphabet. Before blanks are taken out, which `+` may look like.
  const converted = (plus: RegExp) => plain.trim().replace(plus, "-").replaceAll("/", "_");
  const [, inner] = WITHIN.exec(plain) ?? [];
  return [
    converted(isForm ? /[+ ]/g : /\+/g),
    plain
      .replace(/=[ \t]*(?:\r\n?|\n)/g, "")
      .replace(/=([\dA-F]{2})/gi, (_, code: string) => character(code, 16)),
    // A word that was divided at the end of a line.
    plain.replace(/-[ \t]*[\r\n]+/g, ""),
    // The whole link in place of its token.
    ...(inner === undefined ? [] : [inner]),
    converted(/[+ ]/g),
    // Signs as Proofpoint, and as programs for tables, write them.
    plain.replace(/-(2D|5F)/g, (_, code: string) => character(code, 16)),
    plain.replace(/_x([\dA-F]{4})_/g, (_, code: string) => character(code, 16)),
    // The low line as it comes out of the alphabet of short messages.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is one of theirs.
    plain.replace(/[\u00a7\u0011]/g, "_"),
  ];
}

/** The lengths of the token that a text begins with. */
function lengthsOf(text: string): readonly number[] {
  return BEGINNINGS.find(([beginning]) => beginning.test(text))?.[1] ?? [];
}

/** A token with nothing but signs around it, which may be some of its own. */
function wholes(made: string): string[] {
  // Quoted-printable writes the equals sign in front of a token so.
  return [made, made.replace(/^(?:3D)+/i, "")].flatMap((text) =>
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
  return [made, made.replace(/^[_-]+|^(?:3D)+/i, "")].flatMap((text) =>
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

/** What is in no path: soft breaks, and what is not seen or stands for something unknown. */
const UNSEEN = /=[ \t]*[\r\n]+|[\s\p{C}\p{Mn}\u115f\u1160\u2800\u3164\uffa0\ufffc\ufffd]|\p{No}/gu;

/**
 * The path of an address, decoded, without a query in it, and without what programs have put into
 * it.
 */
export function pathOf(url: URL): string {
  const path = decoded(partsOf(url).path).replace(UNSEEN, "");
  const last = path.lastIndexOf("/");
  // A gateway may have named its session there, in the last part, which is read once.
  return path.slice(0, last) + path.slice(last).replace(/;\w+=.*/s, "");
}

/**
 * From where a path has the query, whose separators were encoded once more, by percent signs or as
 * quoted-printable, or are others.
 */
const QUERY_IN_PATH = /(?:%(?:25)*(?:3f|23|26|3b)|=3f|[&;]).*$/is;

/** The name of the token, also where a line or what is not seen divides it. */
const NAME = "t[^\\w-]*o[^\\w-]*k[^\\w-]*e[^\\w-]*n";

/**
 * What is behind it: an equals sign, or what a program has put there; also behind the number of a
 * list. No two parts that can touch take the same characters: each division of a long text between
 * them would be tried.
 */
const EQUALS = "(?:[^\\w=-]|\\d+])*(?:=|(?<!n)(?=[\\w-]{80}))";

/** A name of the token, as mail programs leave that, and its value. */
const NAMED = new RegExp(`^(?:[^=]*[^\\w=-])?${NAME}${EQUALS}(.*)$`, "is");

/** The same somewhere in a text, before what is as long as a token. */
const WITHIN = new RegExp(`(?:^|[^\\w-])${NAME}${EQUALS}(.{80,})$`, "is");

/** A token without a name, as it is behind `#`. */
const BARE = /^[\w-]{80,}/;

/** What an address is made of. */
interface Parts {
  /** The path without a query in it. */
  readonly path: string;
  /** The pairs of the query that have a token: by their name, or else in their value. */
  readonly ofToken: ReadonlySet<string>;
}

/** The pairs of the query. What is named by its sign begins no pair by that sign's name. */
function pairsOf({ search }: URL): string[] {
  return withSigns(narrowed(search.slice(1))).split("&");
}

function partsOf(url: URL): Parts {
  const pathname = separated(url.pathname);
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

/**
 * A path in which the signs between its parts are as they were. Those before a query may be encoded
 * in it.
 */
function separated(pathname: string): string {
  return (
    narrowed(pathname)
      .replace(/&(?!amp;|num;|quest;)[a-z]{2,16};/gi, (name) => encodeURI(withSigns(name)))
      // Proofpoint writes signs so.
      .replace(/\*(?=[\w-]{80})/, "%23")
      .replace(/-3F(token)-3D(?=[\w-]{80})/i, "%3F$1%3D")
      .replace(/\/(?=token=[\w-]{80})/i, "%3F")
  );
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

/** The characters before the first that no token has, without those in front. */
function startOf(text: string): string {
  return /[\w-]+/.exec(text)?.[0] ?? "";
}
