// The services behind the edge, each alone: whom they refuse, what they do when what they need does
// not answer, and that no mail is missed between two streams of events.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { until, within } from "../../verifier-wasm/npm/test/waiting.mjs";
import { cutMail, mail, sendMail } from "./smtp.mjs";

const PASSWORD = "a password of the edge";
const JSON_TYPE = "application/json";

export async function services({ site }) {
  const checks = new Checks();
  await withService(site, "inbox", {}, async (url, port) => {
    await refusesPages(checks, "inbox", url, "/mails", "{}");
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

async function missesNoMail(checks, url, port) {
  const deliver = async (...ids) => {
    for (const id of ids) await sendMail(port, mail({ id }));
  };
  const first = await Stream.open(url);
  await deliver(1);
  await until("the first mail", () => first.ids.length === 1);
  first.close();
  await deliver(2, 3);
  const second = await Stream.open(url, first.mark);
  await deliver(4);
  await until("the last mail", () => second.ids.includes("4"));
  checks.same("a reader that comes again has missed nothing", second.ids.join(), "2,3,4");
  second.close();
  const third = await Stream.open(url, second.mark);
  const fresh = await Stream.open(url);
  const restarted = await Stream.open(url, "another-run 17");
  await deliver(5);
  await until("the news", () => [third, fresh, restarted].every(({ ids }) => ids.includes("5")));
  checks.same("and gets nothing twice", third.ids.join(), "5");
  checks.same("one that never read begins with what is new", fresh.ids.join(), "5");
  checks.same("after a restart of the inbox it gets everything", restarted.ids.join(), "1,2,3,4,5");
  for (const stream of [third, fresh, restarted]) stream.close();
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
  for (const [name, content, code] of [
    [
      "a mail of two megabytes",
      mail({ id: "large", text: `${"a".repeat(998)}\r\n`.repeat(2_100) }),
      "552",
    ],
    ["a mail in a mail, and so on", nested.join("\r\n"), "554"],
  ]) {
    checks.same(`${name} is refused`, await sendMail(port, content), code);
  }
  checks.same("nothing of them is kept", (await list()).length, before);
  for (const [name, content] of [
    ["an empty mail", ""],
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
  checks.same("each is a mail of its own", (await list()).length, before + 5);
  for (let time = 0; time < 3; time += 1)
    await sendMail(port, mail({ id: "<twice@example.test>" }));
  checks.same("one that comes again is shown once", (await list()).length, before + 6);
  checks.same("and counted", (await ask(`${url}/counts`)).body.repeated, 2);
  checks.same(
    "it can be read",
    (await ask(`${url}/mail?id=%3Ctwice@example.test%3E`)).body.html,
    /^<html>/,
  );
  checks.same("another one cannot", (await ask(`${url}/mail?id=nothing`)).status, 404);
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
      await sleep(300);
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
async function withService(site, name, variables, use) {
  const service = spawn(process.execPath, [join(site, "node", `${name}.js`)], {
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
      resolve({ status: response.statusCode, body: JSON.parse(text) });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** A reader of the inbox's events. */
class Stream {
  ids = [];
  mark;
  #asked;

  static async open(url, last) {
    const stream = new Stream();
    stream.#asked = request(`${url}/events`, {
      headers: last === undefined ? {} : { "Last-Event-ID": last },
    });
    stream.#asked.on("error", () => undefined);
    stream.#asked.end();
    const [response] = await once(stream.#asked, "response");
    createInterface({ input: response })
      .on("line", (line) => stream.#read(line))
      .on("error", () => undefined);
    // The first thing that it says is where it begins.
    await until("the beginning of the stream", () => stream.mark);
    return stream;
  }

  #read(line) {
    if (line.startsWith("id: ")) this.mark = line.slice("id: ".length);
    if (line.startsWith("data: ")) this.ids.push(JSON.parse(line.slice("data: ".length)).id);
  }

  close() {
    this.#asked.destroy();
  }
}
