// Links as mail programs, gateways and people leave them. Only text that is no token is mended, and
// only the handler mends: what it makes is judged by the verifier, which accepts one spelling of a
// token (FORMAT.md, "One token, one spelling").

/** The lengths of tokens (FORMAT.md). */
const LENGTHS: readonly number[] = [86, 104, 124, 126, 146, 147, 168];

/** How many texts are judged at most in place of one that is no token. */
const MOST = 4;

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
export function candidatesOf(text: string, isForm = false): readonly string[] {
  if (isToken(text) || text.length > LONGEST) return [text];
  const plain = decoded(text);
  // Base64 of the other alphabet. Before blanks are taken out, which `+` may look like.
  const converted = plain
    .trim()
    .replace(isForm ? /[+ ]/g : /\+/g, "-")
    .replaceAll("/", "_");
  const printed = plain
    .replace(/=[ \t]*(?:\r\n?|\n)/g, "")
    .replace(/=([\dA-F]{2})/gi, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    );
  const found = new Set<string>();
  for (const form of [plain, converted, printed]) {
    for (const made of [form.replace(/[^\w-]+/g, ""), startOf(form)]) {
      // Quoted-printable writes the equals sign in front of a token so.
      for (const candidate of [made, made.replace(/^3D/i, ""), made.replace(/^[_-]+|[_-]$/g, "")]) {
        if (isToken(candidate)) found.add(candidate);
      }
    }
  }
  return found.size === 0 ? [text] : [...found].slice(0, MOST);
}

/**
 * The tokens of an address, each as the texts that it may have been. Its name may have been spelt
 * otherwise, and its separators encoded once more, by a rewriter of links.
 */
export function tokensOf(url: URL): (readonly string[])[] {
  const [, inPath] = /%3f(.*)$/i.exec(url.pathname) ?? [];
  const pairs = [...(inPath === undefined ? [] : [decoded(inPath, 1)]), url.search.slice(1)].join(
    "&",
  );
  return pairs.split("&").flatMap((pair) => {
    const value = tokenIn(pair);
    return value === undefined ? [] : [candidatesOf(value)];
  });
}

/** Whether a name of the query is one under which the token comes. */
export function isTokenName(name: string): boolean {
  return tokenIn(name.includes("=") ? name : `${name}=`) !== undefined;
}

/** The texts that all lists have; nothing where two of them are of different tokens. */
export function common(lists: readonly (readonly string[])[]): readonly string[] | undefined {
  const [first = [], ...others] = lists;
  const shared = first.filter((text) => others.every((list) => list.includes(text)));
  return shared.length === 0 ? undefined : shared;
}

/** The value of the pair, if it is that of the token. */
function tokenIn(pair: string): string | undefined {
  const text = /^[^=]*%3d/i.test(pair) ? decoded(pair, 1) : pair;
  const [, value] = /^(?:\?|%3f|amp;|%26|\s)*token=(.*)$/is.exec(text) ?? [];
  return value === undefined ? undefined : decoded(value, 1);
}

/** Without percent signs before two digits; those that are encoded more than once, too. */
function decoded(text: string, times = 3): string {
  let plain = text;
  for (let time = 0; time < times && /%[\da-f]{2}/i.test(plain); time += 1) {
    plain = plain.replace(/(?:%[\da-f]{2})+/gi, (codes) => {
      try {
        return decodeURIComponent(codes);
      } catch {
        return codes;
      }
    });
    // Bytes that are no UTF-8 stay as they are.
    if (plain === text) break;
  }
  return plain;
}

/** The characters before the first that no token has, without those in front. */
function startOf(text: string): string {
  return /[\w-]+/.exec(text)?.[0] ?? "";
}
