// The services behind the edge, each alone: whom they refuse, what they do when what they need does
// not answer, and what the inbox keeps of what comes by SMTP.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { within } from "../../verifier-wasm/npm/test/waiting.mjs";
import { cutMail, mail, sendMail } from "./smtp.mjs";

const PASSWORD = "a password of the edge";
const JSON_TYPE = "application/json";

export async function services({ site }) {
  const checks = new Checks();
  await withProgram([process.env.MAILROOM_DEMO_INBOX], {}, async (url, port) => {
    await refusesStrangers(checks, url);
    await missesNoMail(checks, url, port);
    await badMails(checks, url, port);
  });
  await origins(checks, site);
  return checks.results;
}

/** Any page that is open in a browser on this machine can post to its ports. */
export async function refusesPages(checks, name, url, path, body) {
  const post = (headers) => ask(`${url}${path}`, { method: "POST", headers, body });
  const own = { "Content-Type": JSON_TYPE };
  const page = { ...own, Origin: "https://elsewhere.example" };
  checks.same(`the ${name} refuses a page`, (await post(page)).status, 403);
  checks.same(
    `the ${name} refuses a page of no origin`,
    (await post({ ...own, Origin: "null" })).status,
    403,
  );
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"]) {
    checks.same(
      `the ${name} refuses ${type || "no type"}`,
      (await post({ "Content-Type": type })).status,
      415,
    );
  }
  for (const host of [
    "elsewhere.example",
    "127.0.0.1.elsewhere.example",
    "localhost.elsewhere.example:80",
  ]) {
    checks.same(`the ${name} is not ${host}`, (await post({ ...own, Host: host })).status, 421);
    const looked = await ask(`${url}${path}`, { headers: { Host: host } });
    checks.same(`and as ${host} shows nothing`, looked.status, 421);
  }
}

/** The inbox shows its own page to a browser, and nothing to others' pages. */
async function refusesStrangers(checks, url) {
  const status = async (method, headers) =>
    (await ask(`${url}/mails`, { method, headers, body: "{}" })).status;
  for (const Origin of ["https://elsewhere.example", "null", `${url}.elsewhere.example`]) {
    for (const method of ["GET", "DELETE"])
      checks.same(
        `the inbox refuses ${method} of ${Origin}`,
        await status(method, { Origin }),
        403,
      );
  }
  for (const Host of ["elsewhere.example", "127.0.0.1.elsewhere.example", "127.0.0.1"])
    checks.same(`the inbox is not ${Host}`, await status("GET", { Host }), 403);
  checks.same("it takes no mail by HTTP", await status("POST", {}), 404);
  checks.same("and shows its mails to this machine", await status("GET", {}), 200);
}

async function missesNoMail(checks, url, port) {
  const deliver = (id, to) => sendMail(port, mail({ id: `<${id}@example.test>` }), to);
  const after = async (id, more = "") =>
    (await ask(`${url}/mails?after=${id}${more}`)).body.map((found) => found.id).join();
  const waiting = after(0, "&wait=60s");
  await deliver("first");
  checks.same("a reader who waits gets the mail", await waiting, "1");
  for (const id of ["second", "third"]) await deliver(id, "b@example.test");
  checks.same("one that comes again has missed nothing", await after(1), "3,2");
  checks.same("and gets nothing twice", await after(3, "&wait=10ms"), "");
  checks.same("a few are the newest", await after(0, "&limit=2"), "3,2");
  checks.same("those to somebody are the others", await after(0, "&to=B%40example.test"), "3,2");
}

/** What may come by SMTP. */
async function badMails(checks, url, port) {
  const list = async () => (await ask(`${url}/mails`)).body;
  const before = (await list()).length;
  await cutMail(port, mail({ id: "cut" }));
  // What a page can post to a port: lines, behind a head that is no command.
  const lines = [
    "HELO x",
    "MAIL FROM:<a@b>",
    "RCPT TO:<a@b>",
    "DATA",
    mail({ id: "posted" }),
    ".",
    "",
  ].join("\r\n");
  await fetch(`http://127.0.0.1:${port}/`, { method: "POST", body: lines }).catch(() => undefined);
  const nested = Array.from(
    { length: 300 },
    (_, depth) => `Content-Type: multipart/mixed; boundary=b${depth}\r\n\r\n--b${depth}`,
  );
  const large = mail({ id: "large", text: `${"a".repeat(998)}\r\n`.repeat(2_100) });
  checks.same("a mail of two megabytes is refused", await sendMail(port, large), "552");
  checks.same("nothing of them is kept", (await list()).length, before);
  for (const [name, content] of [
    ["an empty mail", ""],
    ["a mail in a mail, and so on", nested.join("\r\n")],
    ["what is no mail", "\0\u00ff\r\nX: \r\n: y\r\n\r\n\ud83d"],
    ["a mail without an id", mail({})],
    ["another one", mail({})],
    [
      "a mail with a link to nowhere",
      mail({ id: "odd", text: "https://[::1/x?token=%00 http://?token=a https:///y?token=b" }),
    ],
  ]) {
    checks.same(`${name} is received`, await sendMail(port, content), "250");
  }
  checks.same("each is a mail of its own", (await list()).length, before + 6);
  for (let time = 0; time < 3; time += 1)
    await sendMail(port, mail({ id: "<twice@example.test>" }));
  checks.same("one that comes again is shown once", (await list()).length, before + 7);
  checks.same("and counted", (await ask(`${url}/counts`)).body.repeated, 2);
  const [newest] = await list();
  const shown = await fetch(`${url}/mails/${newest.id}/html`);
  checks.same("it can be read", await shown.text(), /^<html>/);
  const policy = shown.headers.get("content-security-policy");
  checks.same("in a frame without scripts", policy, /^sandbox allow-popups .*default-src 'none'/);
  const source = await (await fetch(`${url}/mails/${newest.id}/source`)).text();
  checks.same("as it came", source, /^From: Somebody .*\r\nSubject: Hello\r\n/);
  const again = await fetch(`${url}/mails/${newest.id}/again`, { method: "POST" });
  checks.same("it is not written again", again.status, 404);
  checks.same("another one cannot be read", (await fetch(`${url}/mails/999/html`)).status, 404);
}

async function origins(checks, site) {
  const held = createServer(() => undefined).listen(0, "127.0.0.1");
  await once(held, "listening");
  const database = (port) => ({
    PGHOST: "127.0.0.1",
    PGPORT: String(port),
    PGUSER: "a",
    PGPASSWORD: "b",
    PGDATABASE: "c",
  });
  await withService(
    site,
    "origin",
    { ORIGIN_PASSWORD: PASSWORD, ...database(held.address().port) },
    async (url) => {
      const own = { "Content-Type": JSON_TYPE, Authorization: `Bearer ${PASSWORD}` };
      const post = async (path, body, headers = own) => {
        const asked = ask(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
        return within(`an answer of the origin at ${path}`, asked);
      };
      const secret = "ab".repeat(32);
      checks.same(
        "without the password nothing goes",
        (await post("/v1/redeem", {}, { "Content-Type": JSON_TYPE })).status,
        401,
      );
      checks.same(
        "nor with another",
        (await post("/v1/redeem", {}, { ...own, Authorization: "Bearer b" })).status,
        401,
      );
      checks.same(
        "a page is refused",
        (await post("/v1/redeem", {}, { ...own, Origin: url })).status,
        403,
      );
      checks.same(
        "and what is no JSON",
        (await post("/v1/redeem", {}, { ...own, "Content-Type": "text/plain" })).status,
        415,
      );
      for (const action of [
        "constructor",
        "__proto__",
        "toString",
        { toString: 1 },
        ["activate"],
        null,
        1,
        "notice",
      ]) {
        const shown = JSON.stringify(action);
        const redeemed = await post("/v1/redeem", { secret, action });
        checks.same(`the action ${shown} is refused`, redeemed.status, 422);
        checks.same(
          `with a reason for ${shown}`,
          redeemed.body.message,
          "Send the secret of an invitation.",
        );
        checks.same(
          `also of a request, ${shown}`,
          (await post("/api/request", { name: "a", action })).status,
          422,
        );
      }
      const elsewhere = await post("/v1/redeem", { secret, action: "activate" });
      checks.same("links of accounts are none of its business", elsewhere.status, 422);
      const away = await post("/v1/redeem", { secret, action: "invite" });
      checks.same("a database that does not answer is told", away.status, 503);
      checks.same("and that nothing was changed", away.body.code, "MAILROOM_AWAY");
    },
  );
  held.close();
  await questionsOfTheOrigin(checks, site, database);
  for (const password of ["", "short"]) {
    const { status, said } = await ending(site, "origin", { ORIGIN_PASSWORD: password });
    checks.same(`the origin does not start with the password '${password}'`, status, 2);
    checks.same(
      `and says why, '${password}'`,
      said,
      /ORIGIN_PASSWORD has to be at least 16 characters/,
    );
  }
}

/** What gets to a database that is slow to greet and never answers. */
async function questionsOfTheOrigin(checks, site, database) {
  let asked = "";
  let connected;
  let greet;
  const connecting = new Promise((resolve) => (connected = resolve));
  const greeting = new Promise((resolve) => (greet = resolve));
  const slow = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => {
      connected();
      // AuthenticationOk and ReadyForQuery.
      void greeting.then(() =>
        socket.write(Buffer.from("520000000800000000" + "5a0000000549", "hex")),
      );
      socket.on("data", (bytes) => (asked += bytes.toString("latin1")));
    });
  }).listen(0, "127.0.0.1");
  await once(slow, "listening");
  await withService(
    site,
    "origin",
    { ORIGIN_PASSWORD: PASSWORD, ...database(slow.address().port) },
    async (url) => {
      const init = {
        method: "POST",
        headers: { "Content-Type": JSON_TYPE, Authorization: `Bearer ${PASSWORD}` },
        body: JSON.stringify({ secret: "ab".repeat(32), action: "invite" }),
      };
      const leaving = new AbortController();
      const left = fetch(`${url}/v1/redeem`, { ...init, signal: leaving.signal }).catch(
        () => undefined,
      );
      await within("a connection to the database", connecting);
      leaving.abort();
      await left;
      // Until the origin has seen that, before the database greets it;
      // and until it could have asked.
      await sleep(3_000);
      greet();
      await sleep(1_500);
      checks.same("what nobody waits for is not asked", asked.includes("mailroom.redeem"), false);
      const { status, body } = await within(
        "an answer of the origin",
        ask(`${url}/v1/redeem`, init),
      );
      checks.same("what somebody waits for is", asked.includes("mailroom.redeem"), true);
      checks.same(
        "an answer that does not come is told",
        `${status} ${body.message}`,
        /^503 .*not known whether this was done/,
      );
      checks.same("as what nobody knows", "code" in body, false);
    },
  );
  slow.close();
}

/** Runs a service of the site until `use` is over. */
function withService(site, name, variables, use) {
  return withProgram([process.execPath, join(site, "node", `${name}.js`)], variables, use);
}

/** Runs a program that announces its ports until `use` is over. */
async function withProgram([program, ...options], variables, use) {
  const service = spawn(program, options, {
    env: { PATH: process.env.PATH, ...variables },
    stdio: ["ignore", "pipe", "inherit"],
  });
  // It would outlive a test that fails in a way of its own.
  process.once("exit", () => service.kill());
  try {
    const ports = {};
    for await (const line of createInterface({ input: service.stdout })) {
      const { socket, port } = JSON.parse(line);
      ports[socket] = port;
      if (socket === "http") break;
    }
    await use(`http://127.0.0.1:${ports.http}`, ports.smtp);
  } finally {
    service.kill();
  }
}

async function ending(site, name, variables) {
  const service = spawn(process.execPath, [join(site, "node", `${name}.js`)], {
    env: { PATH: process.env.PATH, ...variables },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  service.stderr.on("data", (chunk) => (said += chunk));
  try {
    const [status] = await within(`the end of the ${name}`, once(service, "close"));
    return { status, said };
  } finally {
    service.kill();
  }
}

/** Unlike `fetch` it lets the names of host and origin be those of somebody else. */
function ask(url, { method = "GET", headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers }, async (response) => {
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      const isJson = response.headers["content-type"]?.startsWith(JSON_TYPE);
      resolve({ status: response.statusCode, body: isJson ? JSON.parse(text) : text });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
