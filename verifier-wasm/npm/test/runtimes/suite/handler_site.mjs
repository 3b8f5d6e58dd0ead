// What the pages have of their site: name, logo, colour, ways on, the language of its visitors, and
// pages of one's own by action.

import { holds, same } from "./expect.mjs";
import { SITE, read, scene } from "./handler_scene.mjs";
import { altered } from "./tokens.mjs";

const site = {
  name: "Compilers & <Sons>",
  logo: "/logo.svg",
  color: "#ffcc00",
  signIn: "/login?from=mail#top",
  newLink: { recover: "/forgot", activate: "https://help.example/new" },
};

export function* handlerSite(subject) {
  yield* frames(subject);
  yield* ways(subject);
  yield* addresses(subject);
  yield* colours(subject);
  yield* languages(subject);
  yield* byAction(subject);
}

/** Some pages, each with the action that it is of. */
async function pagesOf({ make, open, press, activation, recovery }, options) {
  const handle = make(options);
  const pages = {
    form: open(recovery.token, { path: "/recover" }),
    invalid: open(altered(activation.token)),
    done: press({ token: activation.token }),
    used: press({ token: activation.token }),
    error: new Request(`${SITE}/elsewhere`),
    blocked: new Request(`${SITE}/activate?open=${"0".repeat(32)}`),
  };
  const found = {};
  for (const [name, request] of Object.entries(pages))
    found[name] = await read(await handle(request));
  return found;
}

function* frames(subject) {
  yield [
    "name and logo are on every page, and the policy lets the logo through alone",
    async () => {
      const settings = { site: { ...site, newLink: {} } };
      for (const [name, page] of Object.entries(await pagesOf(scene(subject), settings))) {
        holds(page.text.includes("Compilers &#38; &#60;Sons&#62;</bdi></header>"), name);
        holds(/<title>[^<]+ – Compilers &#38; &#60;Sons&#62;<\/title>/.test(page.text), name);
        holds(page.text.includes('<img src="/logo.svg" alt=""'), name);
        holds(/; img-src 'self';/.test(page.headers.get("Content-Security-Policy")), name);
      }
      const { make, open, activation } = scene(subject);
      const policyOf = async (options) =>
        (await make(options)(open(activation.token))).headers.get("Content-Security-Policy");
      const logo = "https://cdn.example/a;b,c/logo.svg?v=1";
      const distant = await policyOf({ site: { name: "A", logo } });
      holds(distant.includes("; img-src https://cdn.example;"), distant);
      const both = await policyOf({ site: { name: "A", logo }, policy: { "img-src": "'self'" } });
      holds(both.includes("; img-src https://cdn.example 'self';"), both);
      for (const options of [{}, { site: {} }, { site: { name: "A" } }])
        holds(!(await policyOf(options)).includes("img-src"), JSON.stringify(options));
    },
  ];
}

function* ways(subject) {
  yield [
    "a page that has come to an end leads on",
    async () => {
      const newLink = { activate: "/again?a=1&b=2" };
      const pages = await pagesOf(scene(subject), { site: { ...site, newLink } });
      const linksOf = ({ text }) =>
        [...text.matchAll(/<a href="([^"]+)">([^<]+)</g)].map(([, to, what]) => `${to} ${what}`);
      const signIn = "/login?from=mail#top Sign in";
      const again = "/again?a=1&#38;b=2 Ask for a new link";
      for (const [name, expected] of Object.entries({
        form: [],
        invalid: [again, signIn],
        done: [signIn],
        used: [again, signIn],
        error: [signIn],
        blocked: [again, signIn],
      }))
        same(linksOf(pages[name]).join(), expected.join(), name);
      const { make, open, activation } = scene(subject);
      const judgement = await make({ site: { newLink } }).judge(open(altered(activation.token)));
      same(
        JSON.stringify(judgement.ways),
        JSON.stringify([{ address: "/again?a=1&b=2", label: "Ask for a new link" }]),
        "as data",
      );
      same((await make().judge(open(activation.token))).ways.length, 0, "without the option");
    },
  ];
}

function* addresses(subject) {
  yield [
    "only paths of the site and addresses of https get into a page",
    async () => {
      const { make } = scene(subject);
      const refused = (given) => {
        try {
          make({ site: given });
        } catch (error) {
          return error.reason;
        }
        return undefined;
      };
      for (const address of [
        "",
        "login",
        "//evil.example",
        "/\\evil.example",
        "/.//evil.example",
        "/a/..//evil.example",
        "http://app.example/login",
        "https://user:word@app.example",
        "https://",
        "javascript:alert(1)",
        "data:image/svg+xml,x",
        "/a b",
        "/a\nb",
        "/a\u202eb",
        7,
        null,
        {},
      ]) {
        const shown = JSON.stringify(address);
        same(refused({ signIn: address }), "ERR_INVALID_ARGUMENT", `signIn ${shown}`);
        same(refused({ name: "A", logo: address }), "ERR_INVALID_ARGUMENT", `logo ${shown}`);
        const newLink = { recover: address };
        same(refused({ newLink }), "ERR_INVALID_ARGUMENT", `newLink ${shown}`);
      }
      for (const [name, given] of Object.entries({
        "a logo without a name": { logo: "/logo.svg" },
        "a name of two lines": { name: "A\nB" },
        "a long name": { name: "A".repeat(101) },
        "a list of links": { newLink: ["/forgot"] },
        "another option": { title: "A" },
        "no object": "A",
      }))
        same(refused(given), "ERR_INVALID_ARGUMENT", name);
    },
  ];
}

function* colours(subject) {
  yield [
    "whatever the colour, text on buttons and links can be read in light and in dark",
    async () => {
      const { make, open, activation } = scene(subject);
      const luminance = (channels) =>
        channels
          .map((channel) => channel / 255)
          .map((share) => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4))
          .reduce((sum, share, at) => sum + share * [0.2126, 0.7152, 0.0722][at], 0);
      const contrast = (one, other) => {
        const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
      };
      const levels = [0, 51, 119, 187, 255];
      const hex = (channels) =>
        `#${channels.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
      const all = levels.flatMap((red) =>
        levels.flatMap((green) => levels.map((blue) => hex([red, green, blue]))),
      );
      for (const color of [...all, "#FC0", "#0b57d0"]) {
        const { text } = await read(await make({ site: { color } })(open(activation.token)));
        const shades = [...text.matchAll(/--accent: rgb\(([^)]*)\)/g)].map(([, shade]) =>
          shade.split(",").map(Number),
        );
        same(shades.length, 2, `${color}: shades`);
        holds(contrast(shades[0], [255, 255, 255]) >= 4.5, `${color}: ${shades[0]}`);
        holds(contrast(shades[1], [0x16, 0x19, 0x1d]) >= 4.5, `${color}: ${shades[1]}`);
      }
      for (const color of ["red", "#12", "#12345", "#1234567", "#ggg", "#fff;}", 0xff, null]) {
        let thrown;
        try {
          make({ site: { color } });
        } catch (error) {
          thrown = error;
        }
        same(thrown?.reason, "ERR_INVALID_ARGUMENT", String(color));
      }
    },
  ];
}

function* languages(subject) {
  yield [
    "the option language comes before what the browser prefers",
    async () => {
      const { make, open, activation, errors } = scene(subject);
      const languageOf = async (language) => {
        const headers = { "Accept-Language": "fr" };
        const answer = await make({ language })(open(activation.token, { headers }));
        return answer.headers.get("Content-Language");
      };
      same(await languageOf(() => "de"), "de", "a language");
      same(await languageOf(() => "de-AT"), "de", "one of a region");
      same(await languageOf(() => "pt_BR"), "fr", "one in another spelling");
      same(await languageOf(() => "ja"), "fr", "one that has no texts");
      same(await languageOf(() => undefined), "fr", "none");
      same(await languageOf((request) => new URL(request.url).pathname.slice(1, 1) || "it"), "it");
      same(errors.length, 0, "reports");
      for (const language of [
        () => "de;q=0, *",
        () => 7,
        () => null,
        async () => "de",
        () => {
          throw new Error("no session");
        },
      ])
        same(await languageOf(language), "fr", String(language));
      same(errors.length, 5, "reports");
    },
  ];
}

function* byAction(subject) {
  yield [
    "pages of one's own may be of an action, and undefined means the one that is built in",
    async () => {
      const { make, open, press, activation, recovery, errors } = scene(subject);
      const handle = make({
        pages: {
          form: "<p>any {{form}}",
          done: ({ action }) => (action === "recover" ? "<p>recovered" : undefined),
          invalid: "<p>invalid",
          recover: { form: "<p>recover {{form}}", invalid: undefined },
        },
      });
      const text = async (request) => (await read(await handle(request))).text;
      const path = "/recover";
      holds((await text(open(activation.token))).includes("<p>any"), "a form");
      holds((await text(open(recovery.token, { path }))).includes("<p>recover"), "of an action");
      holds((await text(open(altered(activation.token)))).includes("<p>invalid"), "a page");
      const invalid = await text(open(altered(recovery.token), { path }));
      holds(invalid.includes("<h1>This link is not valid"), "undefined by action");
      const done = await text(press({ token: activation.token }));
      holds(done.includes("<h1>Your account is active"), "undefined that is returned");
      const fields = { token: recovery.token, code: recovery.code };
      holds((await text(press(fields, { path }))).includes("<p>recovered"), "a page by judgement");
      same(errors.length, 0, "reports");
      for (const pages of [
        { recover: { form: "no form" } },
        { recover: { forms: "x" } },
        { recover: { done: 7 } },
        { recover: [] },
        { recover: null },
        { recover: "x" },
      ]) {
        let thrown;
        try {
          make({ pages });
        } catch (error) {
          thrown = error;
        }
        same(thrown?.reason, "ERR_INVALID_ARGUMENT", JSON.stringify(pages));
      }
    },
  ];
}
