// The README's Worker between a visitor and an application, both of them real.

import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "node:net";

import { withWorker } from "../runtimes/workerd.mjs";
import { KEPT_OPEN, until } from "../waiting.mjs";

const DATES = ["2025-05-04", "2025-06-01"];
const ACTIVATED = "<!doctype html><title>Activated</title><p>Welcome.";

export async function onWorker(browser, worker, { key, tokens }) {
  const results = [];
  for (const date of DATES) {
    await withOrigin(async (address, origin) => {
      const bindings = { texts: { MAILROOM_SECRET_KEY: key }, servers: { ORIGIN: address } };
      await withWorker(
        { ...worker, date, bindings, objects: { USED_TOKENS: "UsedToken" } },
        async (url) => {
          const [pressed, visited] = tokens;
          const tests = {
            ...requests(url, pressed, origin),
            ...visits(browser, url, visited, origin),
          };
          for (const [name, test] of Object.entries(tests)) {
            origin.asked.length = 0;
            const found = await test();
            results.push({
              name: `${name}, at ${date}`,
              error: found === true ? undefined : String(found),
            });
          }
        },
      );
    });
  }
  return results;
}

/** Each answers `true`, or what was found instead. */
function requests(url, token, origin) {
  const { asked } = origin;
  const forged = `${token.slice(0, 70)}${token[70] === "A" ? "B" : "A"}${token.slice(71)}`;
  const own = { Origin: new URL(url).origin };
  const post = (body, type = "application/x-www-form-urlencoded", of = own) =>
    fetch(`${url}/activate`, { method: "POST", body, headers: { ...of, "Content-Type": type } });
  const refused = async (response, code) => {
    const said = `${response.status} ${await response.text()}, ${asked.length} asked`;
    return said === `403 This link is not valid (${code})., 0 asked` || said;
  };
  const answered = (status, response) =>
    (response.status === status && asked.length === 0) ||
    `${response.status}, ${asked.length} asked`;
  return {
    "opening a genuine link shows a button and changes nothing": async () => {
      const response = await fetch(`${url}/activate?token=${token}`);
      const text = await response.text();
      const policy = ["Cache-Control", "Referrer-Policy"]
        .map((name) => response.headers.get(name))
        .join();
      const fine = response.status === 200 && text.includes("<button>") && !text.includes(token);
      return (
        (fine && policy === "no-store,strict-origin" && asked.length === 0) ||
        `${response.status} ${policy} ${text}`
      );
    },
    "opening a forged link is refused": async () =>
      refused(await fetch(`${url}/activate?token=${forged}`), "ERR_TOKEN_SIGNATURE"),
    "opening a link without a token is refused": async () =>
      refused(await fetch(`${url}/activate`), "ERR_TOKEN_MALFORMED"),
    "redeeming a forged link is refused": async () =>
      refused(await post(`token=${forged}`), "ERR_TOKEN_SIGNATURE"),
    "redeeming a second spelling is refused": async () =>
      refused(await post(`token=${token}%3D%3D`), "ERR_TOKEN_MALFORMED"),
    "redeeming without a token is refused": async () =>
      refused(await post(""), "ERR_TOKEN_MALFORMED"),
    "a body of bytes that are no text is refused": async () =>
      refused(await post(new Uint8Array([0xff, 0, 0x26, 0x3d])), "ERR_TOKEN_MALFORMED"),
    "a form of another site is refused": async () => {
      const foreign = [
        { Origin: "https://evil.example" },
        { ...own, "Sec-Fetch-Site": "cross-site" },
        {},
      ];
      for (const headers of foreign) {
        const found = answered(403, await post(`token=${token}`, undefined, headers));
        if (found !== true) return `${JSON.stringify(headers)}: ${found}`;
      }
      return true;
    },
    "what is no form is refused": async () =>
      answered(415, await post(`token=${token}`, "text/plain")),
    "a form of a megabyte is refused": async () =>
      answered(413, await post(`token=${token}&more=${"A".repeat(1e6)}`)),
    "a form that does not say how long it is is refused": async () => {
      const body = new Blob([`token=${token}`]).stream();
      const headers = { ...own, "Content-Type": "application/x-www-form-urlencoded" };
      return answered(
        413,
        await fetch(`${url}/activate`, { method: "POST", body, headers, duplex: "half" }),
      );
    },
    "asking for the headers alone changes nothing": async () =>
      answered(200, await fetch(`${url}/activate?token=${token}`, { method: "HEAD" })),
    "another method is refused": async () =>
      answered(405, await fetch(`${url}/activate?token=${token}`, { method: "DELETE" })),
    "an application that cannot answer is asked again when the button is pressed again":
      async () => {
        origin.status = 502;
        const away = await post(`token=${token}`);
        origin.status = 200;
        return (
          (away.status === 503 && asked.length === 1) || `${away.status}, ${asked.length} asked`
        );
      },
    "what the application refuses is what the visitor reads, and uses nothing": async () => {
      origin.status = 409;
      const refusal = await post(`token=${token}`);
      origin.status = 200;
      const said = `${refusal.status} ${await refusal.text()}, ${asked.length} asked`;
      return said === `409 ${ACTIVATED}, 1 asked` || said;
    },
    "a visitor who does not wait for an application that fails can use the link again":
      async () => {
        let resolve;
        origin.hold = new Promise((resume) => {
          resolve = resume;
        });
        origin.status = 502;
        const before = asked.length;
        await leave(url, `token=${token}`, () =>
          until("the question to the application", () => asked.length > before),
        );
        origin.hold = undefined;
        resolve();
        // The link is given back a moment after the application has answered.
        return until("a link that is given back", async () => {
          const response = await post(`token=${token}`);
          await response.arrayBuffer();
          return response.status === 503;
        });
      },
    "redeeming a genuine link asks the application once": async () => {
      origin.status = 200;
      const response = await post(`token=${token}`);
      const said = `${response.status} ${await response.text()} ${asked.join("; ")}`;
      return said === `200 ${ACTIVATED} POST /activate token=${token}` || said;
    },
    "a link that was used does not reach the application again": async () =>
      refused(await post(`token=${token}`), "ERR_TOKEN_USED"),
  };
}

/**
 * Presses the button, and hangs up before there is an answer, once `asked` is over. workerd ends a
 * request whose connection is reset.
 */
async function leave(url, body, asked) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  const head = [
    "POST /activate HTTP/1.1",
    `Host: ${hostname}:${port}`,
    `Origin: http://${hostname}:${port}`,
    "Content-Type: application/x-www-form-urlencoded",
    `Content-Length: ${body.length}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
  await asked();
  socket.resetAndDestroy();
  await once(socket, "close");
}

function visits(browser, url, token, { asked }) {
  return {
    "in Chromium the token leaves the address, and the button redeems the link": async () => {
      const page = await browser.newPage();
      try {
        await page.goto(`${url}/activate?token=${token}`);
        const address = page.url();
        const before = asked.length;
        await page.getByRole("button").click();
        await page.getByText("Welcome.").waitFor();
        const said = [address, before, asked.join("; ")].join(" ");
        return said === `${url}/activate 0 POST /activate token=${token}` || said;
      } finally {
        await page.close();
      }
    },
  };
}

/** An application that remembers what it was asked, and answers as it is told to, and when. */
async function withOrigin(use) {
  const origin = { asked: [], status: 200, hold: undefined };
  const server = createServer(KEPT_OPEN, async (request, response) => {
    let body = "";
    for await (const chunk of request) {
      body += chunk;
    }
    origin.asked.push(`${request.method} ${request.url} ${body}`);
    await origin.hold;
    response.writeHead(origin.status, { "Content-Type": "text/html" }).end(ACTIVATED);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use(`127.0.0.1:${server.address().port}`, origin);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
