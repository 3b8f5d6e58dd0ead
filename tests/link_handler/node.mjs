// Requests as Node reads them from a socket: slow, cut, too large, and of other frameworks' doing.

import { once } from "node:events";
import { connect } from "node:net";

import { Checks } from "../web/checks.mjs";
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
  const listener = toNodeListener(createLinkHandler({ verifier, store, redeem: database.redeem, onError }));
  await listening(listener, async (address) => {
    const { host } = new URL(address);
    const { token } = newLink("activate");
    const headers = { Origin: address, "Content-Type": FORM };
    const press = (body, more = {}) =>
      fetch(`${address}/activate`, { method: "POST", headers: { ...headers, ...more }, body });

    checks.same("a link is shown", (await fetch(`${address}/activate?token=${token}`)).status, 200);
    const head = await fetch(`${address}/activate?token=${token}`, { method: "HEAD" });
    checks.same("HEAD is refused", `${head.status} ${head.headers.get("allow")}`, "405 GET, POST");
    checks.same("a megabyte is refused", (await press(`token=${token}&a=${"a".repeat(1_000_000)}`)).status, 413);
    const elsewhere = await press(`token=${token}`, { Origin: "https://evil.example" });
    checks.same("another site's form is refused", elsewhere.status, 403);

    const start = (length, path = "/activate") =>
      `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${address}\r\nContent-Type: ${FORM}\r\nContent-Length: ${length}\r\n\r\n`;
    const slow = await raw(host, `${start(200)}token=${token}`);
    checks.same("a slow body is given up", slow.said, /^HTTP\/1\.1 408 /);
    checks.same("not before ten seconds", slow.seconds > 9.9, true);
    await raw(host, `${start(200)}token=${token}`, 100);
    await raw(host, `GET /activate?token=${token} HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 100);
    for (const [name, request, status] of [
      ["an address of another site", `GET http://evil.example/activate HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 400],
      ["no host", "GET /activate HTTP/1.0\r\n\r\n", 400],
      ["a host that is none", "GET /activate HTTP/1.1\r\nHost: a b/c@d\r\n\r\n", 400],
      [
        "an address of two slashes",
        `GET //evil.example/activate?token=${token} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
        200,
      ],
      ["TRACE", `TRACE /activate HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 405],
      ["headers of 100 kB", `GET /activate HTTP/1.1\r\nHost: ${host}\r\nCookie: ${"a".repeat(100_000)}\r\n\r\n`, 431],
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
  await listening(
    (request, response) => request.resume().on("end", () => listener(request, response)),
    async (address) => {
      const { token } = newLink("activate");
      const headers = { Origin: address, "Content-Type": FORM };
      const reported = errors.length;
      const answer = await fetch(`${address}/activate`, { method: "POST", headers, body: `token=${token}` });
      checks.same("a body that another program has read is refused", answer.status, 400);
      checks.same("and uses nothing", `${database.used.length} ${errors.length - reported}`, "2 0");
    },
  );
  return checks.results;
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
  await new Promise((resolve) => socket.write(text, resolve));
  const closed = once(socket, "close");
  await Promise.race([closed, pause(patience)]);
  socket.destroy();
  await closed;
  return { said, seconds: (performance.now() - started) / 1000 };
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}
