// Requests as Node reads them from a socket: slow, cut, too large, and of other frameworks' doing.

import { once } from "node:events";
import { connect } from "node:net";

import { Checks } from "../checks.mjs";
import { PATIENCE, until } from "../waiting.mjs";
import { Database, listening, newLink } from "./server.mjs";

const FORM = "application/x-www-form-urlencoded";

export async function nodeRequests({ entry, handlerEntry, verifier }) {
  const checks = new Checks();
  const database = new Database();
  const { createLinkHandler, toNodeListener } = handlerEntry;
  const store = entry.createMemoryStore({ capacity: 1000 });
  const errors = [];
  const onError = (error) => errors.push(error);
  const listener = toNodeListener(
    createLinkHandler({ verifier, store, redeem: database.redeem, onError }),
  );
  await listening(listener, async (address) => {
    const { host } = new URL(address);
    const { token } = newLink("activate");
    const headers = { Origin: address, "Content-Type": FORM };
    const press = (body, more = {}) =>
      fetch(`${address}/activate`, { method: "POST", headers: { ...headers, ...more }, body });

    checks.same("a link is shown", (await fetch(`${address}/activate?token=${token}`)).status, 200);
    const head = await fetch(`${address}/activate?token=${token}`, { method: "HEAD" });
    checks.same(
      "HEAD is answered",
      `${head.status} ${head.headers.get("content-type")}`,
      "200 text/html; charset=utf-8",
    );
    checks.same(
      "a megabyte is refused",
      (await press(`token=${token}&a=${"a".repeat(1_000_000)}`)).status,
      413,
    );
    const elsewhere = await press(`token=${token}`, { Origin: "https://evil.example" });
    checks.same("another site's form is refused", elsewhere.status, 403);

    const start = (length, path = "/activate") =>
      `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${address}\r\n` +
      `Content-Type: ${FORM}\r\nContent-Length: ${length}\r\n\r\n`;
    const slow = await raw(host, `${start(200)}token=${token}`);
    checks.same("a slow body is given up", slow.said, /^HTTP\/1\.1 408 /);
    checks.same("not before ten seconds", slow.seconds > 9.9, true);
    await raw(host, `${start(200)}token=${token}`, 100);
    await raw(host, `GET /activate?token=${token} HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 100);
    for (const [name, request, status] of [
      [
        "a target in absolute form",
        `GET http://${host}/activate?token=${token} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
        200,
      ],
      ["one without a path", `GET http://${host}?x HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 404],
      [
        "an absolute target whose host is another one",
        `POST http://evil.example/activate HTTP/1.1\r\nHost: ${host}\r\n` +
          "Origin: http://evil.example\r\nContent-Length: 0\r\n\r\n",
        403,
      ],
      ["no host", "GET /activate HTTP/1.0\r\n\r\n", 400],
      ["a host that is none", "GET /activate HTTP/1.1\r\nHost: a b/c@d\r\n\r\n", 400],
      [
        "an address of two slashes",
        `GET //evil.example/activate?token=${token} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
        200,
      ],
      ["TRACE", `TRACE /activate HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 405],
      [
        "headers of 100 kB",
        `GET /activate HTTP/1.1\r\nHost: ${host}\r\nCookie: ${"a".repeat(100_000)}\r\n\r\n`,
        431,
      ],
    ]) {
      const { said } = await raw(host, request);
      checks.same(name, said, new RegExp(`^HTTP/1\\.1 ${status} `));
    }
    checks.same("nothing was used", database.used.length, 0);
    checks.same("the link works", (await press(`token=${token}`)).status, 200);
    checks.same("once", (await press(`token=${token}`)).status, 409);

    const left = newLink("activate");
    const body = `token=${left.token}`;
    await raw(host, start(body.length) + body, 0);
    await until("the press of a visitor who leaves", () => database.used.length >= 2);
    checks.same("the press of a visitor who leaves goes on", database.used.at(-1), left.secret);
  });
  await bodiesThatWereRead(checks, listener, database, errors);
  return checks.results;
}

/** What a parser, or a host of functions, leaves of a body. */
const LEFT = {
  "an object of fields": (text) => ({ body: Object.fromEntries(new URLSearchParams(text)) }),
  "an object of another realm's kind": (text) => ({
    body: Object.assign(Object.create(null), Object.fromEntries(new URLSearchParams(text))),
  }),
  "an object with a list": (text) => ({
    body: { token: new URLSearchParams(text).getAll("token") },
  }),
  text: (text) => ({ body: text }),
  bytes: (text) => ({ body: Buffer.from(text) }),
  "the bytes as they came": (text) => ({ rawBody: Buffer.from(text), body: { token: "x" } }),
  "text as it came": (text) => ({ rawBody: text }),
};

async function bodiesThatWereRead(checks, listener, database, errors) {
  const type = { "Content-Type": FORM };
  const press = (address, token) =>
    fetch(`${address}/activate`, {
      method: "POST",
      headers: { ...type, Origin: address },
      body: `token=${token}`,
    });
  /** Reads the body as a parser does, and then calls `pass`. */
  const behindParser = (pass, use) =>
    listening(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += chunk;
      pass(request, response, text);
    }, use);
  for (const [what, left] of Object.entries(LEFT)) {
    for (const [where, wrap] of [
      ["", (request, more) => Object.assign(request, more)],
      [
        ", of Fastify",
        (raw, more) => ({
          raw,
          method: raw.method,
          url: raw.url,
          headers: raw.headers,
          socket: raw.socket,
          ...more,
        }),
      ],
      [
        ", of Koa",
        (req, more) => ({
          req,
          method: req.method,
          url: req.url,
          headers: req.headers,
          socket: req.socket,
          ...more,
        }),
      ],
    ]) {
      await behindParser(
        (request, response, text) => listener(wrap(request, left(text)), response),
        async (address) => {
          const { token, secret } = newLink("activate");
          checks.same(
            `${what} of a parser${where} is used`,
            (await press(address, token)).status,
            200,
          );
          checks.same("the link of the form", database.used.at(-1), secret);
          checks.same("once", (await press(address, token)).status, 409);
        },
      );
    }
  }
  const used = database.used.length;
  const reported = errors.length;
  await behindParser(
    (request, response) => listener(request, response),
    async (address) => {
      const { token } = newLink("activate");
      const answer = await press(address, token);
      checks.same("a body that is gone is the site's problem", answer.status, 500);
      checks.same(
        "and uses nothing",
        `${database.used.length - used} ${errors.length - reported}`,
        "0 1",
      );
      checks.same(
        "what is reported says what to do",
        errors.at(-1)?.message,
        /mount the handler before/,
      );
    },
  );
  const left = LEFT["an object of fields"];
  await behindParser(
    (request, response, text) => listener(Object.assign(request, left(text)), response),
    async (address) => {
      const { token } = newLink("activate");
      const headers = { "Content-Type": "application/json", Origin: address };
      const json = await fetch(`${address}/activate`, {
        method: "POST",
        headers,
        body: `token=${token}`,
      });
      checks.same("what was no form is refused", json.status, 415);
      const large = await press(address, "a".repeat(20_000));
      checks.same("as is what is too large", large.status, 413);
      const foreign = await fetch(`${address}/activate`, {
        method: "POST",
        headers: { ...type, Origin: "https://evil.example" },
        body: `token=${token}`,
      });
      checks.same("and another site's form", foreign.status, 403);
      checks.same("nothing was used", database.used.length, used);
    },
  );
  await listening(
    // A parser that has left the body alone has put an empty object there.
    (request, response) => listener(Object.assign(request, { body: {} }), response),
    async (address) =>
      checks.same(
        "an unread body is read",
        (await press(address, newLink("activate").token)).status,
        200,
      ),
  );
  await listening(listener, async (address) => {
    const { host } = new URL(address);
    const start =
      `POST /activate HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${address}\r\n` +
      `Content-Type: ${FORM}\r\n`;
    const taken = await endless(host, `${start}Transfer-Encoding: chunked\r\n\r\n`);
    checks.same(
      "of a body without end only some megabytes are taken",
      taken < 64 * 1024 * 1024,
      true,
    );
  });
}

/** Sends a chunked body until the connection ends, and says how many bytes it took. */
async function endless(host, head) {
  const [name, port] = host.split(":");
  const socket = connect(Number(port), name).on("error", () => {});
  await once(socket, "connect");
  socket.resume().write(head);
  const chunk = Buffer.from(`10000\r\n${"a".repeat(65_536)}\r\n`);
  let sent = 0;
  let isOver = false;
  const closed = closing(socket).then(() => (isOver = true));
  for (const end = Date.now() + PATIENCE; !isOver && Date.now() < end; ) {
    sent += 65_536;
    if (!socket.write(chunk))
      await Promise.race([once(socket, "drain").catch(() => {}), closed, pause(1_000)]);
    else await pause(0);
  }
  socket.destroy();
  return isOver ? sent : Number.POSITIVE_INFINITY;
}

/** Sends text, and says what came back until the end, or in so many milliseconds. */
async function raw(host, text, patience = PATIENCE) {
  const [name, port] = host.split(":");
  const socket = connect(Number(port), name);
  const started = performance.now();
  let said = "";
  socket.on("data", (chunk) => {
    said += chunk;
    if (patience > 0 && /\r\n\r\n/.test(said)) socket.destroy();
  });
  socket.on("error", () => {});
  await once(socket, "connect");
  // It may be over before everything is written.
  const closed = closing(socket);
  await new Promise((resolve) => socket.write(text, resolve));
  await Promise.race([closed, pause(patience)]);
  socket.destroy();
  await closed;
  return { said, seconds: (performance.now() - started) / 1000 };
}

/**
 * Waits until a connection is over. `once` fails when it ends by an error, such as one of writing.
 */
function closing(socket) {
  return new Promise((resolve) => socket.once("close", resolve));
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}
