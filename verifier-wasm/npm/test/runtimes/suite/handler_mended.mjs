// Links that mail programs, gateways and people have changed: mended where that is possible, into
// the one spelling of a token.

import { same, holds } from "./expect.mjs";
import { SITE, read, scene } from "./handler_scene.mjs";
import { untouchedStore } from "./stores.mjs";
import { altered, genuine } from "./tokens.mjs";

/** The session of a gateway, as long as some are. */
const LONG = `${"0A1B".repeat(40)}!-12!9`;

/** What stands in an address instead of `token=TOKEN`, by what has happened to it. */
function mangled(token) {
  const middle = (text) => token.slice(0, 60) + text + token.slice(60);
  return Object.entries({
    ...Object.fromEntries(
      [".", ",", ")", "]", "%3E", "%22", "'", ";", "!", ":", "/"].map((end) => [end, token + end]),
    ),
    ...Object.fromEntries(
      ["%20", "+", "%0D", "%0D%0A", "%C2%A0", "%E2%80%8B", "%E2%80%99", "=", "==", "-", "_"].map(
        (end) => [`${end} at the end`, token + end],
      ),
    ),
    "a blank before it": `%20${token}`,
    "quotation marks around it": `%22${token}%22`,
    "angle brackets around it": `%3C${token}%3E`,
    "underlined as in Markdown": `_${token}_`,
    "an equals sign of quoted-printable": `3D${token}`,
    "a soft break": middle("%3D%0D%0A"),
    "a soft break without its equals sign": middle("%0D%0A"),
    "a hyphen written as quoted-printable": token.replaceAll("-", "%3D2D"),
    "a blank inside": middle("%20"),
    "a no-break space inside": middle("%C2%A0"),
    "a zero width space inside": middle("%E2%80%8B"),
    "a soft hyphen inside": middle("%C2%AD"),
    "a line break and a mark of a quotation": middle("%0A%3E%20"),
    "encoded twice": token.replaceAll("_", "%255F").replaceAll("-", "%252D"),
    "encoded three times": token.replaceAll("_", "%25255F"),
    "escaped by backslashes": token.replaceAll("_", "\\_"),
    "the other alphabet of base64": token.replaceAll("-", "+").replaceAll("_", "/"),
    "the other alphabet, encoded": token.replaceAll("-", "%2B").replaceAll("_", "%2F"),
    "the other alphabet and a blank": `${token.replaceAll("-", "+").replaceAll("_", "/")}%20`,
    "a tag behind it": `${token}%3Cbr%3E`,
    "another query behind it": `${token}?utm_source=x`,
    "a bracket and text behind it": `${token})%20and%20more`,
    "a letter joined to it": `${token}A`,
    "text joined to it": `${token}Thank%20you`,
    "the whole link joined to it": `${token}https://app.example/activate?token=${token}`,
    "the same, encoded": `${token}https%3A%2F%2Fapp.example%2Factivate%3Ftoken%3D${token}`,
    "a link of Markdown": `${token}](https://app.example/activate?token=${token})`,
    "the end of a link that Proofpoint has rewritten": `${token}__;!!NEt6yMaO-gk!abc$`,
    "text after a break inside": `${middle("%0D%0A")}%20Thank%20you`,
    "bold in Markdown": `__${token}__`,
    "signs that underline a heading": `${token}---`,
    "a hyphen at the end of a line": middle("-%0D%0A"),
    "a tag of a line break inside": middle("%3Cbr%20/%3E%0A"),
    "a tag of a word break inside": middle("%3Cwbr%3E"),
    "a no-break space of Latin-1 inside": middle("%A0"),
    "hyphens as dashes": token.replaceAll("-", "%E2%80%93"),
    "hyphens that do not break": token.replaceAll("-", "%E2%80%91"),
    "two hyphens as one dash": token.replaceAll("--", "%E2%80%94"),
    "full width": encodeURIComponent(
      token.replace(/[^\n]/g, (sign) => String.fromCharCode(sign.charCodeAt(0) + 0xfee0)),
    ),
    "signs escaped as in HTML": encodeURIComponent(
      token.replaceAll("_", "&#95;").replaceAll("-", "&#x2D;"),
    ),
    "signs escaped as in JSON": encodeURIComponent(token.replaceAll("_", "\\u005f")),
    "signs escaped by their names in HTML": token
      .replaceAll("_", "&lowbar;")
      .replaceAll("-", "&hyphen;"),
    "the same names, encoded": encodeURIComponent(
      token.replaceAll("_", "&lowbar;").replaceAll("-", "&hyphen;"),
    ),
    "a full stop by its name": `${token}&period;`,
    "a slash and a colon by their names": `${token}&sol;&colon;`,
    "parameters behind an encoded ampersand": `${token}%26utm_source%3Dx`,
    "a parameter behind a semicolon": `${token};jsessionid=1`,
    "the whole link in place of its token": `https://app.example/activate?token=${token}`,
    "the same in place of it, encoded": `https%3A%2F%2Fapp.example%2Factivate%3Ftoken%3D${token}`,
    "its name twice": `token=${token}`,
    "two equals signs of quoted-printable": `3D3D${token}`,
    "a mark of direction inside": middle("%E2%80%8F"),
    "a mark of direction in UTF-8 read as Windows-1252": middle("%C3%A2%E2%82%AC%C2%AA"),
    "a small number above the line": middle("%C2%B9"),
    "the sign of a trade mark inside": middle("%E2%84%A2"),
    "two hyphens as one small dash": token.replaceAll("--", "%E2%80%93"),
    "hyphens as long dashes": token.replaceAll("-", "%E2%80%94"),
    "hyphens as bullets": token.replaceAll("-", "%E2%81%83"),
    "hyphens as signs of a long vowel": token.replaceAll("-", "%E3%83%BC"),
    "dashes in UTF-8 read as Windows-1252": encodeURIComponent(token.replaceAll("-", "â€“")),
    "a hyphen of a divided word inside": middle("%E2%80%90"),
    "low lines as short messages show them": token.replaceAll("_", "%C2%A7"),
    "low lines as short messages have them": token.replaceAll("_", "%11"),
    "signs as Proofpoint writes them": token.replaceAll("-", "-2D").replaceAll("_", "-5F"),
    "a line break as a table writes it": middle("_x000D_"),
    "a soft hyphen by its name": middle("&shy;"),
    "the same name, encoded": middle("%26shy%3B"),
    "a no-break space by its name before it": `&nbsp;${token}`,
    "dashes by their names": token.replaceAll("-", "&ndash;"),
    "a tag that is escaped inside": middle("%26lt;wbr%26gt;"),
    "a tag with attributes inside": middle("%3Cspan%20class=%22x%22%3E"),
    "a comment inside": middle("%3C!--%20--%3E"),
    "a tag of Outlook inside": middle("%3Co:p%3E%3C/o:p%3E"),
    "signs escaped as in JavaScript": encodeURIComponent(
      token.replaceAll("_", "\\x5f").replaceAll("-", "\\u{2d}"),
    ),
    "signs escaped by numbers with zeros": encodeURIComponent(
      token.replaceAll("_", "&#0000095;").replaceAll("-", "&#x0000002D;"),
    ),
    "an escape that was escaped": encodeURIComponent(token.replaceAll("_", "&amp;#95;")),
    "a line break that is written out": middle("%5Cr%5Cn"),
    "a soft hyphen of the old escape of JavaScript": middle("%u00AD"),
    "the name of whoever is quoted before its second line": middle("%0AAB%3E%20"),
    "the colours of a terminal": `%1B[4m${middle("%1B[1m")}%1B[0m`,
    "the other alphabet, its plus signs as blanks": token.replaceAll("-", "%20"),
  }).map(([what, text]) => [what, `token=${text}`]);
}

/** What has happened to the rest of an address. */
function addresses(token) {
  return Object.entries({
    "an escaped ampersand before it": `/activate?x=1&amp;token=${token}`,
    "an escaped ampersand behind it": `/activate?token=${token}&amp;utm_source=x`,
    "parameters behind it": `/activate?token=${token}&utm_source=mail&mc_cid=1`,
    "the same token twice": `/activate?token=${token}&token=${token}`,
    "the same token eight times": `/activate?${Array(8).fill(`token=${token}`).join("&")}`,
    "the same token by two names": `/activate?token=${token}&amp;token=${token}.`,
    "its name in capitals": `/activate?TOKEN=${token}`,
    "its name with a capital": `/activate?Token=${token}`,
    "two question marks": `/activate??token=${token}`,
    "an encoded equals sign": `/activate?token%3D${token}`,
    "an encoded question mark": `/activate%3Ftoken=${token}`,
    both: `/activate%3Ftoken%3D${token}`,
    "both, as quoted-printable": `/activate=3Ftoken=3D${token}`,
    "both, in a path with a prefix": `/app/de/activate%3ftoken%3d${token}`,
    "both, encoded twice": `/activate%253Ftoken%253D${token}`,
    "an ampersand in place of the question mark": `/activate&token=${token}`,
    "an encoded # before its name": `/activate%23token=${token}`,
    "an encoded # before it": `/activate%23${token}`,
    "a semicolon in place of the ampersand": `/activate?x=1;token=${token}`,
    "a parameter with a question mark before it": `/activate?utm_source=x?token=${token}`,
    "an encoded end of an escaped ampersand": `/activate?x=1&amp%3Btoken=${token}`,
    "an ampersand escaped by its number": `/activate?x=1&%2338;token=${token}`,
    "an ampersand escaped as in JSON": `/activate?x=1%5Cu0026token=${token}`,
    "an equals sign escaped as in JSON": `/activate?token%5Cu003d${token}`,
    "an equals sign by its name": `/activate?token&equals;${token}`,
    "an equals sign and an ampersand by their names": `/activate?x=1&amp;token&equals;${token}`,
    "an ampersand by its name, encoded": `/activate?x=1%26amp%3Btoken=${token}`,
    "a question mark by its name": `/activate&quest;token=${token}`,
    "all of its signs by their names": `/app&sol;activate&quest;token&equals;${token
      .replaceAll("_", "&lowbar;")
      .replaceAll("-", "&hyphen;")}`,
    "a # by its name": `/activate&num;${token}`,
    "a blank before its name": `/activate?%20token=${token}`,
    "a blank behind its name": `/activate?token%20=${token}`,
    "a zero width space before its name": `/activate?%E2%80%8Btoken=${token}`,
    "its name a second time, without a value": `/activate?token=&token=${token}`,
    "a zero width space behind the path": `/activate%E2%80%8B?token=${token}`,
    "a full stop behind the path": `/activate.?token=${token}`,
    "a line break behind the path": `/activate%0D?token=${token}`,
    "a blank before the path": `/%20activate?token=${token}`,
    "a soft hyphen inside the path": `/acti%C2%ADvate?token=${token}`,
    "a soft break inside the path": `/acti=%0D%0Avate?token=3D${token}`,
    "a number above the line behind the path": `/activate%C2%B9?token=${token}`,
    "the session of a gateway behind the path": `/activate;jsessionid=0A1B?token=${token}`,
    "the long session of a gateway behind the path": `/activate;jsessionid=${LONG}?token=${token}`,
    "a question mark of full width": `/activate%EF%BC%9Ftoken=${token}`,
    "all of its signs in full width": `/activate%EF%BC%9Fa=1%EF%BC%86token%EF%BC%9D${token}`,
    "a slash of full width": `/%EF%BC%8Factivate?token=${token}`,
    "a # of full width before it": `/activate%EF%BC%83${token}`,
    "its name in full width": `/activate?%EF%BD%94oken=${token}`,
    "a mark of direction inside its name": `/activate?tok%E2%80%8Een=${token}`,
    "a soft break inside its name": `/activate?tok%3D%0D%0Aen=3D${token}`,
    "a soft break without its line break inside its name": `/activate?tok=en=3D${token}`,
    "a colon in place of the equals sign": `/activate?token:${token}`,
    "a number behind its name": `/activate?token[0]=${token}`,
    "an equals sign escaped as in JavaScript": `/activate?token%5Cx3d${token}`,
    "an asterisk of Proofpoint in place of the #": `/activate*${token}__;Iw!!NEt6yMaO!x$`,
    "all as Proofpoint writes it": `/activate-3Ftoken-3D${token
      .replaceAll("-", "-2D")
      .replaceAll("_", "-5F")}`,
    "a slash in place of the question mark": `/activate/token=${token}`,
  });
}

const shownIn = (text) => /name="token" value="([^"]*)"/.exec(text)?.[1];

export function* handlerMended(subject) {
  const { vectors2 } = subject;
  yield [
    "a link that a mail program has changed shows the form, " +
      "and only the token as it was signed goes on",
    async () => {
      const { make, activation, asked, errors } = scene(subject);
      const { token } = activation;
      const handle = make({ store: untouchedStore() });
      const opened = mangled(token).map(([what, query]) => [what, `/activate?${query}`]);
      for (const [what, address] of [...opened, ...addresses(token)]) {
        const page = await read(await handle(new Request(SITE + address)));
        same(`${page.status} ${shownIn(page.text)}`, `200 ${token}`, what);
        const [, action] = /<form method="post" action="([^"]*)"/.exec(page.text);
        holds(!/token|Ag|%(25)*3f|%23/i.test(action), `${what}: ${action}`);
        // Without script the cookie has it as well.
        const query = `${address}${address.includes("?") ? "&" : "?"}script=no`;
        const moved = await handle(new Request(SITE + query));
        same(moved.status, 303, what);
        holds(moved.headers.get("Set-Cookie").includes(`=${token};`), what);
        holds(!moved.headers.get("Location").includes(token.slice(0, 40)), what);
      }
      same(`${asked.length} ${errors.length}`, "0 0", "calls of redeem, and reports");
    },
  ];
  yield [
    "a form of a page of one's own may have such a token, too, and uses the same link",
    async () => {
      const { make, press, activation, asked } = scene(subject);
      const { token } = activation;
      for (const sent of [
        `${token}.`,
        ` ${token}`,
        `${token}==`,
        token.replaceAll("-", "+").replaceAll("_", "/"),
        `${token}\0`,
      ]) {
        const handle = make();
        same((await handle(press({ token: sent }))).status, 200, JSON.stringify(sent.slice(-4)));
        same((await handle(press({ token }))).status, 409, "the same link");
      }
      same(asked.length, 5, "calls of redeem");
    },
  ];
  yield [
    "text of the application's own that looks like a name of the token is none",
    async () => {
      const { make, activation } = scene(subject);
      const { token } = activation;
      const handle = make({ store: untouchedStore() });
      const others = [
        "csrf_token=x",
        "x-token=y",
        "next=/a?token=z",
        "next=/a;token=z",
        "tokens=1",
      ];
      for (const own of [...others, "a=token"]) {
        const address = `${SITE}/activate?${own}&token=${token}`;
        const page = await read(await handle(new Request(address)));
        same(`${page.status} ${shownIn(page.text)}`, `200 ${token}`, own);
        const [, action] = /<form method="post" action="([^"]*)"/.exec(page.text);
        same(action.replaceAll("&#38;", "&"), `?${new URLSearchParams(own)}`, own);
      }
      const two = `${SITE}/activate?token=${token}&amp;token=${altered(token)}`;
      same((await handle(new Request(two))).status, 400, "two different tokens by two names");
      const named = `${SITE}/activate?token=${token}&token&equals;${altered(token)}`;
      same((await handle(new Request(named))).status, 400, "one of them behind a sign by its name");
      const kept = `${SITE}/activate?num=1&sol=2&token=${token}`;
      const page = await read(await handle(new Request(kept)));
      const [, action] = /<form method="post" action="([^"]*)"/.exec(page.text);
      same(action.replaceAll("&#38;", "&"), "?num=1&sol=2", "parameters named as signs are");
    },
  ];
  yield [
    "what is not to be mended is refused, and the page says how a link is copied whole",
    async () => {
      const { make, activation } = scene(subject);
      const { token } = activation;
      const handle = make({ store: untouchedStore() });
      for (const text of [
        token.slice(0, -1),
        `${token.slice(0, 60)}…`,
        token.toUpperCase(),
        token.toLowerCase(),
        `${token.slice(0, 50)}${token.slice(51)}`,
        altered(token),
        `${altered(token)}.`,
        ".".repeat(1_000),
        `${token}${" ".repeat(100_000)}`,
        "%".repeat(10_000),
      ]) {
        const page = await read(
          await handle(new Request(`${SITE}/activate?${new URLSearchParams({ token: text })}`)),
        );
        same(page.status, 403, text.slice(-10));
        holds(
          page.text.includes(
            "copy all of it into the address bar, from https:// to its last character",
          ),
          page.text,
        );
      }
    },
  ];
  yield [
    "a link of v2 that is cut is never taken for one of v1, wherever it is cut; " +
      "one of v1 may begin as others do",
    async () => {
      const { make, recovery, errors } = scene(subject);
      const handle = make({ store: untouchedStore(), countsAttempts: true });
      const opened = async (text) => {
        const address = `${SITE}/recover?${new URLSearchParams({ token: text })}`;
        return (await handle(new Request(address))).status;
      };
      // What v1 demands of the last of its 86 characters, one in sixteen tokens has there.
      const token = `${recovery.token.slice(0, 85)}A${recovery.token.slice(86)}`;
      for (let length = 87; length < token.length; length += 1) {
        for (const end of ["", ".", "…", " and more", "_", "A", "\r\n", "3D"]) {
          const text = token.slice(0, length) + end;
          same(await opened(text), 403, `${length} characters and ${JSON.stringify(end)}`);
        }
      }
      same(await opened(`${token.slice(0, 86)} ${token.slice(87)}`), 403, "one with a hole");
      same(errors.length, 0, "reports");
      // Whether one as long as those of v1 is one, nothing but the database can know.
      for (const end of ["", ".", "%20", "\r\n"]) {
        same(await opened(token.slice(0, 86) + decodeURIComponent(end)), 200, JSON.stringify(end));
      }
    },
  ];
  yield [
    "a genuine token is never changed, whichever it is",
    async () => {
      const { make, clock } = scene(subject);
      for (const { key, action, token } of genuine(vectors2)) {
        if (action !== "activate" && action !== "recover") continue;
        const verifier = subject.createVerifier({ keys: key, clock, ...subject.options });
        const handle = make({ verifier, store: untouchedStore() });
        const page = await read(await handle(new Request(`${SITE}/${action}?token=${token}`)));
        if (page.status === 200) same(shownIn(page.text), token, "the token");
      }
    },
  ];
  yield [
    "whatever is done to an address at random, " +
      "what is shown is the token as it was signed, or nothing",
    async () => {
      const { make, activation } = scene(subject);
      const { token } = activation;
      // What is damaged may name a key that nobody has, or say that it has expired.
      const handle = make({ store: untouchedStore() });
      // The same at each run.
      let state = 20_261_125;
      const below = (most) => {
        state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
        return Math.floor((state / 2 ** 32) * most);
      };
      const pieces = [
        ".",
        "%20",
        "+",
        "-",
        "_",
        "=",
        "%3D",
        "/",
        "%E2%80%8B",
        "3D",
        "A",
        "%0D%0A",
        "&amp;",
        "%25",
        "\\",
        "%E2%80%94",
        "%E2%80%93",
        "%3Cbr%3E",
        "-%0A",
        "&#95;",
        "&lowbar;",
        "&equals;",
        "&period;",
        "%A0",
        "Ag",
        "https://app.example/activate?token=",
        token,
      ];
      let shown = 0;
      for (let round = 0; round < 2_000; round += 1) {
        let text = token;
        for (let change = below(4); change >= 0; change -= 1) {
          const at = below(text.length + 1);
          const cut = below(5) === 0 ? below(3) : 0;
          text = text.slice(0, at) + pieces[below(pieces.length)] + text.slice(at + cut);
        }
        const page = await read(await handle(new Request(`${SITE}/activate?token=${text}`)));
        if (page.status === 200) {
          same(shownIn(page.text), token, text);
          shown += 1;
        } else holds([400, 403, 410, 500].includes(page.status), `${page.status}: ${text}`);
      }
      holds(shown > 300, `${shown} were mended`);
    },
  ];
}
