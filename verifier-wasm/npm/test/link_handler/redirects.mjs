// Where `redeem` redirects, the visitor arrives: by the policy of the page that sends the form,
// browsers would follow no redirect to another site, behind a proxy that ends TLS not even one to
// the same.

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import { request as ask } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";

import { Checks } from "../checks.mjs";
import { listening, newLink } from "./server.mjs";

/** A proxy that ends TLS and keeps the header `Host`; `use` gets its address. */
async function behindProxy(folder, port, use) {
  const place = mkdtempSync(join(folder, "tls-"));
  const [key, cert] = ["key.pem", "cert.pem"].map((name) => join(place, name));
  const subject = ["-x509", "-days", "2", "-subj", "/CN=localhost", "-nodes"];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  execFileSync("openssl", ["req", ...subject, ...curve, "-keyout", key, "-out", cert], {
    stdio: "ignore",
  });
  const server = createServer(
    { key: readFileSync(key), cert: readFileSync(cert) },
    (request, response) => {
      const { method, url: path, headers } = request;
      const passed = ask({ host: "127.0.0.1", port, method, path, headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      passed.on("error", () => response.destroy());
      request.pipe(passed);
    },
  ).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use(`https://127.0.0.1:${server.address().port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Repeats what the driver cannot do yet, while pages of two processes take turns. */
async function attached(act) {
  for (let time = 0; ; time += 1) {
    try {
      return await act();
    } catch (error) {
      if (time === 300 || !/Not attached to an active page/.test(error.message)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

/** A framework that sends the form and the redirect itself, to an origin that it has named. */
export function redirectsOfFramework(context, site) {
  const checks = new Checks();
  const pages = async (request, response) => {
    const host = request.headers.host;
    if (host.startsWith("accounts.")) {
      response.setHeader("Content-Type", "text/html");
      response.end(`<!doctype html><title>Welcome</title><h1>Welcome by ${request.method}</h1>`);
      return;
    }
    const there = `http://accounts.localhost:${request.socket.localPort}`;
    const { judge } = site.handlerEntry.createLinkHandler({
      verifier: site.verifier,
      store: site.entry.createMemoryStore({ capacity: 10_000 }),
      redeem: () => Response.redirect(`${there}/welcome`, 303),
      policy: { "form-action": there },
      onError() {},
    });
    const listener = site.handlerEntry.toNodeListener(async (request) => {
      const { page, status, headers, token, title, response } = await judge(request);
      if (response) return response;
      if (page === "moved") return new Response(null, { status, headers });
      headers.set("Content-Type", "text/html");
      const field = `<input type="hidden" name="token" value="${token}">`;
      const form = `<form method="post" action="?">${field}<button>${title}</button></form>`;
      return new Response(`<!doctype html><title>${title}</title>${form}`, { status, headers });
    });
    listener(request, response);
  };
  return listening(pages, async (address) => {
    const page = await context.newPage();
    await page.goto(`${address}/activate?token=${newLink("activate").token}`);
    await page.click("button");
    const arrived = await page
      .waitForURL(/accounts\.localhost/)
      .then(() => page.textContent("h1"))
      .catch(() => page.url());
    checks.same("a redirect to an origin that the policy names", arrived, "Welcome by GET");
    await page.close();
    return checks.results;
  });
}

/** A link's page, and the pages to which the application leads, with script or without. */
export async function redirects(context, { site, folder, scripts }) {
  const checks = new Checks();
  const { createLinkHandler, toNodeListener } = site.handlerEntry;
  let answer;
  const handler = createLinkHandler({
    verifier: site.verifier,
    store: site.entry.createMemoryStore({ capacity: 10_000 }),
    redeem: (link) => answer(link),
    onError() {},
  });
  const listener = toNodeListener(handler);
  const pages = (request, response) => {
    if (request.url === "/login") {
      const Location = `http://signin.localhost:${request.socket.localPort}/welcome`;
      response.writeHead(302, { Location }).end();
    } else if (request.url.startsWith("/welcome")) {
      response.setHeader("Content-Type", "text/html");
      response.end(`<!doctype html><title>Welcome</title><h1>Welcome by ${request.method}</h1>`);
    } else listener(request, response);
  };
  await listening(pages, async (address, asked) => {
    const { port } = new URL(address);
    const other = `http://accounts.localhost:${port}/welcome?from=link&x='"`;
    const headers = { "Set-Cookie": "session=1; HttpOnly; Path=/" };
    const redirect = (status, Location) => () =>
      new Response(null, { status, headers: { ...headers, Location } });
    const cases = [
      ["to the same site", redirect(303, "/welcome"), "/welcome"],
      ["to another name beside it", redirect(302, "welcome?a=1&b=2#c"), "/welcome?a=1&b=2#c"],
      ["to another sub-domain", redirect(303, other), new URL(other).href],
      [
        "to a page that redirects to another host",
        redirect(303, "/login"),
        `http://signin.localhost:${port}/welcome`,
      ],
      ["of a kind that would send the form again", redirect(307, "/welcome"), "/welcome"],
      [
        "to its own address as the server sees it",
        ({ request }) => Response.redirect(new URL("/welcome", request.url), 303),
        "/welcome",
      ],
    ];
    const visit = async (name, origin) => {
      for (const [title, given, there] of cases) {
        const page = await context.newPage();
        await context.clearCookies();
        let calls = 0;
        answer = (link) => {
          calls += 1;
          return given(link);
        };
        const { token } = newLink("activate");
        await page.goto(`${origin}/activate?token=${token}`);
        await page.waitForURL((url) => !url.href.includes(token));
        const before = asked.length;
        await page.click("button");
        const expected = new URL(there, origin).href;
        const arrived = await page
          .waitForURL(expected)
          .then(() => page.textContent("h1"))
          .catch(() => page.url());
        checks.same(`${name}, a redirect ${title} arrives`, arrived, "Welcome by GET");
        checks.same(`${name}, ${title}: the link was used once`, calls, 1);
        const last = asked.at(-1);
        if (new URL(expected).host === new URL(origin).host && given !== cases.at(-1)[1]) {
          checks.same(
            `${name}, ${title}: the cookie came, too`,
            /session=1/.test(last.headers.cookie ?? ""),
            true,
          );
        }
        checks.none(
          `${name}, ${title}: nobody learns of the token`,
          asked
            .slice(before)
            .filter(({ url, headers }) => `${url} ${headers.referer}`.includes(token)),
        );
        await page.waitForLoadState();
        await attached(() => page.goBack());
        await attached(() => page.reload());
        await page.waitForSelector("h1:visible");
        checks.same(
          `${name}, ${title}: the way back shows no form`,
          `${await page.locator("button").count()} ${calls}`,
          "0 1",
        );
        if (scripts) {
          // Without it no entry of the history tells the token.
          const kept = await page.evaluate(() => JSON.stringify({ ...sessionStorage }));
          checks.same(`${name}, ${title}: the pad is forgotten`, kept, "{}");
        }
        await page.close();
      }
    };
    await visit("without TLS", address);
    await behindProxy(folder, port, (origin) => visit("behind a proxy that ends TLS", origin));
  });
  return checks.results;
}
