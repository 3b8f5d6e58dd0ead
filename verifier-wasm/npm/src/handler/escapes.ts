// The characters of a link as programs write them: encoded, escaped, converted, or replaced by
// others that look the same. Anybody can send these texts, so each step takes time in proportion to
// the text.

/** What HTML has names for that is in a link, or that programs put between its characters. */
const NAMED_SIGNS: Readonly<Record<string, string>> = {
  equals: "=",
  period: ".",
  hyphen: "-",
  lowbar: "_",
  quest: "?",
  sol: "/",
  colon: ":",
  num: "#",
  UnderBar: "_",
  dash: "-",
  ndash: "\u2013",
  mdash: "\u2014",
  horbar: "\u2015",
  minus: "\u2212",
  lt: "<",
  gt: ">",
  // What a token has none of is taken out.
  ...Object.fromEntries(
    [
      ..."nbsp,ensp,emsp,thinsp,hairsp,shy,zwnj,zwj,lrm,rlm,ZeroWidthSpace,NoBreak".split(","),
      ..."NonBreakingSpace,NewLine,Tab,quot,apos,lsquo,rsquo,ldquo,rdquo,laquo,raquo".split(","),
      ..."hellip,lpar,rpar,lsqb,lbrack,rsqb,rbrack,comma,excl,semi".split(","),
    ].map((name) => [name, "\n"]),
  ),
};

const NAMES = Object.keys(NAMED_SIGNS).join("|");
const SIGN = new RegExp(`&(${NAMES});`, "g");
const SIGN_OR_AMPERSAND = new RegExp(`&(amp|${NAMES});`, "g");

/** A text in which no sign is written by its name, but for the ampersand, which is a separator. */
export function withSigns(text: string): string {
  return text.replace(SIGN, signNamed);
}

function signNamed(_reference: string, name: string): string {
  return NAMED_SIGNS[name] ?? "&";
}

/**
 * Decodes percent signs, also of what was encoded up to three times, and escapes of HTML and of
 * JavaScript.
 */
export function decoded(text: string): string {
  // As most of what is sent.
  if (!/[%&\\]/.test(text)) return text;
  // Bytes that are no UTF-8, such as a no-break space of Latin-1, become signs that are no token's:
  // to throw and catch an error takes longer than all the rest of a request.
  const utf8 = new TextDecoder();
  let plain = text;
  for (const _time of [1, 2, 3]) {
    plain = plain.replace(/(?:%[\da-f]{2})+/gi, (codes) =>
      utf8.decode(Uint8Array.from(codes.slice(1).split("%"), (code) => Number.parseInt(code, 16))),
    );
  }
  return (
    plain
      // An escape of HTML whose own ampersand was escaped.
      .replace(/&amp;(?=#)/g, "&")
      .replace(/(?:&#x0{0,4}|%u|\\u\{?)([\da-f]{1,4})[;}]?/gi, (_, code: string) =>
        character(code, 16),
      )
      .replace(/\\x([\da-f]{2})/gi, (_, code: string) => character(code, 16))
      .replace(/&#0{0,4}(\d{1,5});?/g, (_, code: string) => character(code, 10))
      .replace(SIGN_OR_AMPERSAND, signNamed)
      .replace(SIGN, signNamed)
  );
}

/** The character of a code in hexadecimal or decimal digits. */
export function character(code: string, base: number): string {
  return String.fromCharCode(Number.parseInt(code, base));
}

/**
 * Signs and letters of full width in a path or a query as plain ones, as they are encoded. Input
 * methods write them, also between the parts of a link.
 */
export function narrowed(text: string): string {
  return text.replace(/%EF%B([CD])%([89AB][\dA-F])/gi, (whole, row: string, code: string) => {
    const place = Number.parseInt(code, 16) - 0x80 + (row.toUpperCase() === "D" ? 0x40 : 0);
    return place > 0 && place < 0x5f ? `%${(place + 0x20).toString(16).toUpperCase()}` : whole;
  });
}

/** What of HTML and of terminals is around text or in it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals take it for a beginning.
const MARKUP = /<!--[^<>]*>|<\/?[a-z][a-z\d:]{0,15}(?:\s[^<>]*)?\/?>|\u001b\[[\d;]{0,9}[a-z]/gi;

/** Dashes, and what else stands for a hyphen. */
const DASH = /[\p{Pd}\u02d7\u2043\u2212\u2500\u30fc]/gu;

/**
 * What a text may have been before programs replaced its letters and hyphens, the likeliest first.
 * It is without the marks of quotations and of line breaks that were written out.
 */
export function plainFormsOf(text: string): string[] {
  const read = decoded(text)
    .replace(MARKUP, "")
    .replace(/\\[nrt]/g, "\n")
    // Whose words are quoted, before each line.
    .replace(/([\r\n])[ \t]*[A-Z]{1,4}>/g, "$1")
    // A dash in UTF-8 that was read as Windows-1252 or Latin-1.
    .replace(/\u00e2[\u20ac\u0080]([\u0090-\u0094\u2018\u2019\u201c\u201d])/g, (_, sign: string) =>
      /[\u0094\u201d]/.test(sign) ? "\u2014" : "\u2013",
    )
    // One by one: many marks on one letter would be sorted. Digits and letters above a line, in
    // circles or for a word are none of a token's.
    .replace(/[^\p{ASCII}\p{No}\p{Lo}\p{Lm}\p{So}]/gu, (one) => one.normalize("NFKC"));
  const dashed = (small: string, em: string) =>
    read.replace(/[^\p{ASCII}]/gu, (one) =>
      one === "\u2014" ? em : one.search(DASH) === 0 ? small : one,
    );
  const first = dashed("-", "--");
  if (/^\p{ASCII}*$/u.test(read)) return [first];
  // Some programs write two hyphens as the small dash, and some divide words by one of their own.
  return [first, dashed("-", "-"), dashed("--", "---"), dashed("", "")];
}
