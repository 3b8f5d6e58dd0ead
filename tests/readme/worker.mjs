// The README's Worker between a visitor and an application, both of them real.

import { once } from "node:events";
import { createServer } from "node:http";

import { withWorker } from "../runtimes/workerd.mjs";

const DATES = ["2025-05-04", "2025-06-01"];
const ACTIVATED = "<!doctype html><title>Activated</title><p>Welcome.";

export async function onWorker(browser, worker, { key, token }) {
  const results = [];
  for (const date of DATES) {
    await withOrigin(async (address, asked) => {
      const bindings = { texts: { MAILROOM_SECRET_KEY: key }, servers: { ORIGIN: address } };
      await withWorker({ ...worker, date, bindings }, async (url) => {
        const tests = { ...requests(url, token, asked), ...visits(browser, url, token, asked) };
        for (const [name, test] of Object.entries(tests)) {
          asked.length = 0;
          const found = await test();
          results.push({ name: `${name}, at ${date}`, error: found === true ? undefined : String(found) });
        }
      });
    });
  }
  return results;
}

/** Each answers `true`, or what was found instead. */
function requests(url, token, asked) {
  const forged = `${token.slice(0, 70)}${token[70] === "A" ? "B" : "A"}${token.slice(71)}`;
  const post = (body, type = "application/x-www-form-urlencoded") =>
    fetch(`${url}/activate`, { method: "POST", body, headers: { "Content-Type": type } });
  const refused = async (response, code) => {
    const said = `${response.status} ${await response.text()}, ${asked.length} asked`;
    return said === `403 This link is not valid (${code})., 0 asked` || said;
  };
  return {
    "opening a genuine link shows a button and changes nothing": async () => {
      const response = await fetch(`${url}/activate?token=${token}`);
      const text = await response.text();
      const policy = ["Cache-Control", "Referrer-Policy"].map((name) => response.headers.get(name)).join();
      const fine = response.status === 200 && text.includes("<button>") && !text.includes(token);
      return (
        (fine && policy === "no-store,no-referrer" && asked.length === 0) || `${response.status} ${policy} ${text}`
      );
    },
    "opening a forged link is refused": async () =>
      refused(await fetch(`${url}/activate?token=${forged}`), "ERR_TOKEN_SIGNATURE"),
    "opening a link without a token is refused": async () =>
      refused(await fetch(`${url}/activate`), "ERR_TOKEN_MALFORMED"),
    "redeeming a forged link is refused": async () => refused(await post(`token=${forged}`), "ERR_TOKEN_SIGNATURE"),
    "redeeming a second spelling is refused": async () =>
      refused(await post(`token=${token}%3D%3D`), "ERR_TOKEN_MALFORMED"),
    "redeeming without a token is refused": async () => refused(await post(""), "ERR_TOKEN_MALFORMED"),
    "a body that is no form is refused": async () =>
      refused(await post(new Uint8Array([0xff, 0, 0x26, 0x3d]), "image/png"), "ERR_TOKEN_MALFORMED"),
    "another method is refused": async () => {
      const { status } = await fetch(`${url}/activate?token=${token}`, { method: "DELETE" });
      return (status === 405 && asked.length === 0) || status;
    },
    "redeeming a genuine link asks the application once": async () => {
      const response = await post(`token=${token}`);
      const said = `${response.status} ${await response.text()} ${asked.join("; ")}`;
      return said === `200 ${ACTIVATED} POST /activate token=${token}` || said;
    },
  };
}

function visits(browser, url, token, asked) {
  return {
    "in Chromium the token leaves the address, and the button redeems the link": async () => {
      const page = await browser.newPage();
      try {
        await page.goto(`${url}/activate?token=${token}`);
        const address = page.url();
        const before = asked.length;
        await page.getByRole("button").click();
        await page.getByText("Welcome.").waitFor({ timeout: 10_000 });
        const said = [address, before, asked.join("; ")].join(" ");
        return said === `${url}/activate 0 POST /activate token=${token}` || said;
      } finally {
        await page.close();
      }
    },
  };
}

/** An application that remembers what it was asked. */
async function withOrigin(use) {
  const asked = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) {
      body += chunk;
    }
    asked.push(`${request.method} ${request.url} ${body}`);
    response.writeHead(200, { "Content-Type": "text/html" }).end(ACTIVATED);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use(`127.0.0.1:${server.address().port}`, asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
