// A redirect that `redeem` answers: the page in its place, which addresses that names, and who gets
// the redirect itself.

import { holds, same } from "./expect.mjs";
import { BUTTONS } from "./handler_languages.mjs";
import { read, scene, SITE } from "./handler_scene.mjs";

const REDIRECT = { Location: "/welcome", "Set-Cookie": "session=1; HttpOnly" };

const LINKS = {
  en: "Continue",
  de: "Weiter",
  fr: "Continuer",
  es: "Continuar",
  it: "Continua",
  nl: "Doorgaan",
  pl: "Dalej",
  pt: "Continuar",
};

/** An address as HTML has it. */
const inHtml = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

export function* handlerOnward(subject) {
  yield [
    "a redirect of the application becomes a page that goes there, with its cookie",
    async () => {
      for (const status of [301, 302, 303, 307, 308]) {
        const { make, press, activation, answers } = scene(subject);
        answers.now = new Response("moved", {
          status,
          headers: { ...REDIRECT, "Content-Length": "5", Refresh: "1;url=/other", "X-Own": "1" },
        });
        const page = await read(await make()(press({ token: activation.token })));
        same(page.status, 200, "status");
        for (const [name, value] of [
          ["Set-Cookie", REDIRECT["Set-Cookie"]],
          ["Location", null],
          ["Refresh", null],
          ["Content-Length", null],
          ["X-Own", "1"],
          ["Cache-Control", "no-store"],
          ["Referrer-Policy", "no-referrer"],
          ["Content-Type", "text/html; charset=utf-8"],
        ])
          same(page.headers.get(name), value, name);
        holds(/form-action 'self'/.test(page.headers.get("Content-Security-Policy")), "policy");
        const refresh = `<meta http-equiv="refresh" content="${inHtml('0;url="/welcome"')}">`;
        holds(page.text.includes(refresh), page.text);
        holds(page.text.includes('<a href="/welcome">Continue</a>'), page.text);
        holds(page.text.includes("forget();") && !page.text.includes(activation.token), page.text);
      }
    },
  ];
  yield [
    "it is in the language of the visitor",
    async () => {
      for (const language of Object.keys(BUTTONS)) {
        const link = LINKS[language];
        const { make, press, activation, answers } = scene(subject);
        answers.now = new Response(null, { status: 303, headers: REDIRECT });
        const headers = { "Accept-Language": language };
        const page = await read(await make()(press({ token: activation.token }, { headers })));
        holds(page.text.includes(`<html lang="${language}">`), page.text);
        holds(page.text.includes(`<a href="/welcome">${link}</a>`), page.text);
        same(page.headers.get("Content-Language"), language, "Content-Language");
      }
    },
  ];
  yield [
    "it names an address as the visitor's browser has to read it",
    async () => {
      for (const [location, address] of [
        ["https://other.example/a?b=1&c='2'#d", "https://other.example/a?b=1&c=%272%27#d"],
        ["HTTPS://OTHER.example", "https://other.example/"],
        ["//other.example/a", "//other.example/a"],
        [`${SITE}/welcome?a=1#b`, "/welcome?a=1#b"],
        [`${SITE}//other.example/`, "/.//other.example/"],
        ["welcome?a=1&b=2", "welcome?a=1&b=2"],
        [`'"><script>alert(1)</script>`, `'%22><script>alert(1)</script>`],
        ["", ""],
      ]) {
        const { make, press, activation, answers, errors } = scene(subject);
        answers.now = new Response(null, { status: 303, headers: { Location: location } });
        const { text } = await read(await make()(press({ token: activation.token })));
        holds(text.includes(`<a href="${inHtml(address)}">`), `${location}: ${text}`);
        holds(text.includes(`content="${inHtml(`0;url="${address}"`)}"`), `${location}: ${text}`);
        same(errors.length, 0, "errors");
      }
    },
  ];
  yield [
    "an address that is not of the web is in no page: the link was used, and the operator hears it",
    async () => {
      for (const location of [
        "javascript:alert(1)",
        "JAVA\tSCRIPT:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "https://",
        "http://a b/",
        // On a page of the same scheme these are paths.
        "https:other.example",
        "HTTPS:other.example",
        "https:/other.example",
        "https:\\other.example",
        "ht\ttps:other.example",
        "http:other.example",
        "http:/other.example/a",
      ]) {
        const { make, press, activation, answers, errors } = scene(subject);
        const headers = { ...REDIRECT, Location: location };
        answers.now = new Response(null, { status: 303, headers });
        const page = await read(await make()(press({ token: activation.token })));
        same(page.status, 200, location);
        holds(page.text.includes("Your account is active"), page.text);
        holds(!/http-equiv|alert\(1\)|passwd|other\.example|<a /.test(page.text), page.text);
        same(page.headers.get("Location"), null, "Location");
        same(page.headers.get("Set-Cookie"), REDIRECT["Set-Cookie"], "cookie");
        same(errors.length, 1, "errors");
        holds(/neither of http or https/.test(errors[0].message), errors[0].message);
      }
    },
  ];
  yield [
    "scripts that fetch, and judge, get the redirect itself",
    async () => {
      for (const mode of ["cors", "same-origin", "no-cors"]) {
        const { make, press, activation, answers } = scene(subject);
        answers.now = new Response(null, { status: 303, headers: REDIRECT });
        const headers = { "Sec-Fetch-Mode": mode };
        const answer = await make()(press({ token: activation.token }, { headers }));
        same(`${answer.status} ${answer.headers.get("Location")}`, "303 /welcome", mode);
        same(answer.headers.get("Set-Cookie"), REDIRECT["Set-Cookie"], "cookie");
        same(answer.headers.get("Cache-Control"), "no-store", "Cache-Control");
      }
      const { make, press, activation, answers } = scene(subject);
      answers.now = new Response(null, { status: 303, headers: REDIRECT });
      const { page, response } = await make().judge(press({ token: activation.token }));
      same(
        `${page} ${response.status} ${response.headers.get("Location")}`,
        "response 303 /welcome",
        "judge",
      );
    },
  ];
  yield [
    "another response of the application goes to the visitor as it is",
    async () => {
      for (const [status, headers] of [
        [200, { "Content-Type": "text/html", "Set-Cookie": "session=1" }],
        [303, { "X-Own": "no address" }],
        [300, { Location: "/choices" }],
        [403, { Location: "/login" }],
      ]) {
        const { make, press, activation, answers } = scene(subject);
        answers.now = new Response("<h1>Own</h1>", { status, headers });
        const answer = await read(await make()(press({ token: activation.token })));
        same(`${answer.status} ${answer.text}`, `${status} <h1>Own</h1>`, "answer");
        for (const [name, value] of Object.entries(headers))
          same(answer.headers.get(name), value, name);
      }
    },
  ];
}
