// What the handler's pages are: their policy, without script, pages of one's own, and as data.

import { holds, same } from "./expect.mjs";
import { FORM, SITE, read, scene, withoutNonce } from "./handler_scene.mjs";
import { altered } from "./tokens.mjs";
import { untouchedStore } from "./stores.mjs";

const POLICY = new RegExp(
  "^default-src 'none'; script-src 'nonce-([0-9a-f]{32})'; style-src 'nonce-\\1'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'$",
);

export function* handlerPages(subject) {
  yield* policy(subject);
  yield* withoutScript(subject);
  yield* ownPages(subject);
  yield* asData(subject);
}

function* policy(subject) {
  yield [
    "every page has the policy, its own nonce, and no place that keeps it",
    async () => {
      const { make, open, press, activation } = scene(subject);
      const handle = make();
      const nonces = new Set();
      const requests = [
        open(activation.token),
        open(activation.token),
        open(altered(activation.token)),
        press({ token: activation.token }),
        press({ token: activation.token }),
        new Request(`${SITE}/activate`, { method: "DELETE" }),
        new Request(`${SITE}/elsewhere`),
      ];
      for (const request of requests) {
        const { headers, text } = await read(await handle(request));
        const [, nonce] = POLICY.exec(headers.get("Content-Security-Policy")) ?? [];
        holds(nonce !== undefined && !nonces.has(nonce), headers.get("Content-Security-Policy"));
        nonces.add(nonce);
        same([...text.matchAll(/<(script|style)\b/g)].length, 2, "scripts and styles");
        same(
          [...text.matchAll(new RegExp(`nonce="${nonce}"`, "g"))].length,
          2,
          "those with the nonce",
        );
        holds(!/\b(src|srcset|@import|url\()/.test(text), "nothing is loaded");
        same(headers.get("Cache-Control"), "no-store", "Cache-Control");
        same(headers.get("Referrer-Policy"), "strict-origin", "Referrer-Policy");
        same(headers.get("X-Content-Type-Options"), "nosniff", "X-Content-Type-Options");
        same(headers.get("Content-Type"), "text/html; charset=utf-8", "Content-Type");
        same(headers.get("Set-Cookie"), null, "Set-Cookie");
      }
    },
  ];
  yield [
    "the script that takes the token out of the address is the first thing in the page",
    async () => {
      const { make, open, activation } = scene(subject);
      const { text } = await read(await make()(open(activation.token)));
      const head = text.indexOf('<head>\n<meta charset="utf-8">\n<script nonce=');
      holds(head > 0 && text.includes("history.replaceState("), text.slice(0, 300));
      holds(
        !text.includes(`token=${activation.token}"`) || text.includes("<noscript>"),
        "the token in an address",
      );
      holds(text.includes('action="?"'), "the form's address is without the token");
    },
  ];
  yield [
    "a forger reads the same of every link that is none",
    async () => {
      const { make, open, press, activation, recovery, answers } = scene(subject);
      const handle = make();
      answers.now = "unknown";
      const texts = new Set();
      for (const request of [
        open("x"),
        open(altered(activation.token)),
        open(`A${activation.token}`),
        open(recovery.token),
        press({ token: "x" }),
        press({ token: altered(activation.token) }),
        press({ token: recovery.token }),
        press({ token: activation.token, code: "12345" }),
        press({ token: activation.token }),
      ]) {
        const { status, text } = await read(await handle(request));
        texts.add(`${status} ${withoutNonce(text)}`);
      }
      same(texts.size, 1, "different answers");
    },
  ];
}

function* withoutScript(subject) {
  yield [
    "without script a redirect takes the token out of the address, " +
      "and nothing is used or counted by it",
    async () => {
      const { make, press, activation, asked } = scene(subject);
      const handle = make({ store: untouchedStore() });
      const first = await read(
        await handle(new Request(`${SITE}/activate?next=1&token=${activation.token}`)),
      );
      const [, refresh] =
        /<noscript><meta http-equiv="refresh" content="0;url=([^"]+)"><\/noscript>/.exec(
          first.text,
        );
      const address = new URL(refresh.replaceAll("&#38;", "&"), `${SITE}/activate`);
      const redirect = await handle(new Request(address));
      same(redirect.status, 303, "status");
      const location = new URL(redirect.headers.get("Location"), address);
      holds(
        !location.href.includes(activation.token) && location.searchParams.get("next") === "1",
        location.href,
      );
      const cookie = redirect.headers.get("Set-Cookie");
      holds(
        /^mailroom-link-[0-9a-f]{32}=[\w-]+; Max-Age=60; HttpOnly; SameSite=Lax; Secure$/.test(
          cookie,
        ),
        cookie,
      );
      const headers = { Cookie: `a=b; ${cookie.split(";")[0]}; c=${"d".repeat(1000)}` };
      const shown = await read(await handle(new Request(location, { headers })));
      same(shown.status, 200, "the page");
      holds(
        shown.text.includes(`value="${activation.token}"`) && !shown.text.includes("http-equiv"),
        shown.text,
      );
      same(shown.headers.get("Set-Cookie"), null, "the cookie's minute goes on");
      same((await handle(new Request(location, { headers }))).status, 200, "a reload");
      const lost = await read(await handle(new Request(location)));
      same(lost.status, 400, "without the cookie");
      holds(lost.text.includes("allow cookies"), lost.text);
      same(asked.length, 0, "calls of redeem");
      const done = await make()(press({ token: activation.token }, { headers }));
      same(done.status, 200, "the press");
      holds(
        /^mailroom-link-[0-9a-f]{32}=; Max-Age=0;/.test(done.headers.get("Set-Cookie")),
        "the cookie ends",
      );
    },
  ];
  yield [
    "a link that is none is not put into a cookie, nor is a cookie that is none shown",
    async () => {
      const { make, activation } = scene(subject);
      const handle = make();
      for (const token of [altered(activation.token), "x;Path=/", "x\r\nSet-Cookie: a=b"]) {
        const query = new URLSearchParams({ token, script: "no" });
        const answer = await handle(new Request(`${SITE}/activate?${query}`));
        same(
          `${answer.status} ${answer.headers.get("Set-Cookie")}`,
          "403 null",
          token.slice(0, 10),
        );
      }
      for (const id of ["", "x", `${"0".repeat(32)}; Domain=example`, "0".repeat(33)]) {
        const answer = await handle(
          new Request(`${SITE}/activate?${new URLSearchParams({ open: id })}`),
        );
        same(`${answer.status} ${answer.headers.get("Set-Cookie")}`, "400 null", id);
      }
      const id = "0".repeat(32);
      const headers = { Cookie: `mailroom-link-${id}="><script>alert(1)</script>` };
      const { status, text } = await read(
        await handle(new Request(`${SITE}/activate?open=${id}`, { headers })),
      );
      same(status, 403, "a cookie of somebody else's");
      holds(!text.includes("alert(1)"), "its content");
    },
  ];
  yield [
    "the cookie is for https, unless the browser is known to be on http, on its own machine",
    async () => {
      const { make, activation } = scene(subject);
      for (const [site, referrer, secure] of [
        ["http://localhost:3000", "http://localhost:3000/", false],
        ["http://127.0.0.1", "http://127.0.0.1/", false],
        ["http://localhost:3000", undefined, true],
        ["http://localhost:3000", "https://app.example/", true],
        ["http://app.example", "http://app.example/", true],
      ]) {
        const headers = new Headers(referrer === undefined ? {} : { Referer: referrer });
        const answer = await make()(
          new Request(`${site}/activate?script=no&token=${activation.token}`, { headers }),
        );
        same(answer.headers.get("Set-Cookie").endsWith("; Secure"), secure, site);
      }
    },
  ];
}

function* ownPages(subject) {
  yield [
    "a string replaces a page; the token still leaves the address first",
    async () => {
      const { make, open, press, activation } = scene(subject);
      const form =
        "<!doctype html>\n<html lang='{{language}}'>\n<head><link rel=stylesheet " +
        "href=/s.css></head><h1>{{title}}</h1>{{form}}";
      const handle = make({
        pages: { form, done: "Fine: {{title}} {{nonce}}" },
        policy: { "style-src": "'self'" },
      });
      const { text, headers } = await read(await handle(open(activation.token)));
      const [, before] = /^(.*?)<link/s.exec(text);
      holds(/<head><script nonce=.*<\/script><noscript>.*<\/noscript>$/s.test(before), before);
      holds(text.includes('<h1>Activate your account</h1><form method="post"'), text);
      holds(
        /style-src 'nonce-[0-9a-f]+' 'self';/.test(headers.get("Content-Security-Policy")),
        "policy",
      );
      const done = await read(await handle(press({ token: activation.token })));
      holds(
        /^<script.*<\/script>Fine: Your account is active [0-9a-f]{32}$/s.test(done.text),
        done.text,
      );
    },
  ];
  yield [
    "a function replaces a page, and the handler's own is shown where it fails",
    async () => {
      const { make, open, activation, errors } = scene(subject);
      let made = async ({ page, action, status, expiresAt }, form) =>
        `<html><body>${page} ${action} ${status} ${expiresAt} ${form}`;
      const handle = make({ pages: { form: (...given) => made(...given) } });
      const { text } = await read(await handle(open(activation.token)));
      holds(text.includes(`form activate 200 ${activation.expiresAt} <form`), text);
      holds(text.startsWith("<html><script nonce="), text.slice(0, 40));
      for (const wrong of [
        () => {
          throw new Error("no template");
        },
        () => null,
        async () => new Response("x"),
      ]) {
        made = wrong;
        const page = await read(await handle(open(activation.token)));
        same(page.status, 200, "status");
        holds(page.text.includes("Activate my account"), page.text);
      }
      same(errors.length, 3, "reports");
    },
  ];
}

function* asData(subject) {
  yield [
    "as data, a token in the address moves to a cookie, and the page gets it from there",
    async () => {
      const { make, open, press, recovery, asked } = scene(subject);
      const { judge } = make();
      const path = "/recover";
      const moved = await judge(open(recovery.token, { path }));
      same(
        `${moved.page} ${moved.status} ${moved.token}`,
        "moved 303 undefined",
        "the first request",
      );
      const location = new URL(moved.headers.get("Location"), `${SITE}${path}`);
      const headers = {
        Cookie: moved.headers.get("Set-Cookie").split(";")[0],
        "Accept-Language": "nl",
      };
      const shown = await judge(new Request(location, { headers }));
      same(
        `${shown.page} ${shown.status} ${shown.codeDigits} ${shown.language}`,
        "form 200 5 nl",
        "the second",
      );
      same(shown.token, recovery.token, "token");
      same(shown.expiresAt, recovery.expiresAt, "expiresAt");
      holds(
        shown.headers.get("Content-Security-Policy").includes(`'nonce-${shown.nonce}'`),
        "policy",
      );
      const wrong = await judge(
        press({ token: recovery.token, code: recovery.wrongCode }, { path }),
      );
      same(
        `${wrong.page} ${wrong.status} ${wrong.problem} ${wrong.reason}`,
        "form 422 wrongCode ERR_CODE_MISMATCH",
        "wrong",
      );
      const done = await judge(press({ token: recovery.token, code: recovery.code }, { path }));
      same(
        `${done.page} ${done.status} ${done.title}`,
        "done 200 Your account is recovered",
        "done",
      );
      same(asked.length, 1, "calls of redeem");
      const used = await judge(press({ token: recovery.token, code: recovery.code }, { path }));
      same(
        `${used.page} ${used.status} ${used.reason} ${used.token}`,
        "used 409 ERR_TOKEN_USED undefined",
        "used",
      );
    },
  ];
  yield [
    "as data, too, another site's form, type and method use nothing",
    async () => {
      const { make, press, activation, asked } = scene(subject);
      const { judge } = make();
      const fields = { token: activation.token };
      for (const [status, request] of [
        [403, press(fields, { headers: { Origin: "https://evil.example" } })],
        [415, press(fields, { headers: { "Content-Type": "text/plain" } })],
        [405, press(fields, { method: "PUT" })],
      ]) {
        const judged = await judge(request);
        same(`${judged.page} ${judged.status}`, `error ${status}`, `status ${status}`);
      }
      same(asked.length, 0, "calls of redeem");
      same(FORM, "application/x-www-form-urlencoded", "the type of a form");
    },
  ];
}
