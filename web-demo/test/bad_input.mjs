// What nobody should send: each has a clear answer, and nothing is lost or executed.

import { randomBytes } from "node:crypto";
import { request } from "node:http";

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { until } from "../../verifier-wasm/npm/test/waiting.mjs";
import { refusesPages } from "./services.mjs";

const FORM = "application/x-www-form-urlencoded";
const RTL = "\u0645\u0631\u062d\u0628\u0627";

export async function badRegistrations({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("taken");
  const tries = [
    ["an empty email", "", "nobody", "An email is needed."],
    ["an empty login", "nobody@example.test", "   ", "A login is needed."],
    [
      "an email of 255",
      `${"a".repeat(242)}@example.test`,
      "nobody",
      "An email has at most 254 characters.",
    ],
    [
      "a login of 255",
      "nobody@example.test",
      "a".repeat(255),
      "A login has at most 254 characters.",
    ],
    ["no email at all", "nobody", "nobody", "An email address has a name, an @ and a domain."],
    [
      "a login that is taken",
      "somebody@example.test",
      "taken",
      "This login is taken. Choose another one.",
    ],
  ];
  for (const [name, email, login, message] of tries) {
    await page.fill("#email", email);
    await page.fill("#login", login);
    await page.click("#register button");
    await page.waitForFunction(
      (text) => document.querySelector("#register-note").textContent === text,
      message,
    );
    checks.same(
      `${name} is refused at its field`,
      await page.locator('#register [aria-invalid="true"]').count(),
      1,
    );
  }
  // A page's field drops line breaks; others do not.
  for (const [name, body] of [
    ["a line break", { email: "a@example.test\n1,b@example.test", login: "x" }],
    ["a control character", { email: "a@example.test", login: "x\u0000y" }],
    ["a line separator", { email: "a@example.test", login: "x\u2028y" }],
    ["half a character", { email: "a@example.test", login: "x\ud800" }],
    ["a number", { email: 1, login: {} }],
    ["nothing", {}],
  ]) {
    const response = await post(
      `${demo.address}/api/register`,
      "application/json",
      JSON.stringify(body),
    );
    checks.same(
      `${name} is refused with a reason`,
      `${response.status} ${(await response.json()).message.length > 10}`,
      "422 true",
    );
  }
  const [{ count }] = await demo.query(
    "SELECT count(*)::int AS count FROM accounts WHERE login IN ('nobody', 'x')",
  );
  checks.same("none of them is in the database", count, 0);

  // These are unusual, and somebody's.
  for (const [name, login] of [
    ["commas", "Lovelace, Ada"],
    ["quotes", `"Ada" 'the' \`first\``],
    ["right-to-left text", `${RTL} \u202eabc`],
    [
      "HTML",
      "<script>document.title='executed'</script><img src=x onerror=\"document.title='executed'\">",
    ],
    ["254 characters", "ä".repeat(254)],
  ]) {
    const email = `${name.replaceAll(" ", "-").toLowerCase()}@example.test`;
    // A page behind another one hears no events, and does not know it.
    await page.bringToFront();
    await page.fill("#email", email);
    await page.fill("#login", login);
    await page.click("#register button");
    const account = page.locator("#account dd").first();
    await until(
      `the account of a login with ${name}`,
      async () => (await account.textContent()) === login.trim(),
    );
    await visitor.mail(page, "activate");
    const link = await visitor.follow(page, "activate");
    checks.same(
      `a login with ${name} is activated`,
      await visitor.press(link),
      "Your account is active",
    );
    checks.same(
      `and with ${name} nothing is executed`,
      await page.title(),
      "Walk-through · Mailroom",
    );
    await link.close();
  }
  const quoted = await post(
    `${demo.address}/api/register`,
    "application/json",
    '{"email":"\\"a,b\\"@example.test","login":"quoted"}',
  );
  checks.same("an address that gets no mails is refused", quoted.status, 422);

  // Whether an address is taken is not told; whose it is gets a mail,
  // at most one every five seconds.
  await new Promise((resolve) => setTimeout(resolve, 5_500));
  await page.fill("#email", "taken@example.test");
  await page.fill("#login", "other");
  await page.click("#register button");
  await page.waitForFunction(() => document.querySelectorAll("#mails li").length === 2);
  const answered = await page.textContent("#register-note");
  checks.same(
    "an email that is taken is answered alike",
    answered,
    "A mail is on its way to taken@example.test.",
  );
  const [{ tokens, logins }] = await demo.query(
    `SELECT count(tokens)::int AS tokens, count(DISTINCT login)::int AS logins
    FROM tokens JOIN accounts ON accounts.id = account WHERE email = 'taken@example.test'`,
  );
  checks.same("and gets another activation", `${tokens} ${logins}`, "2 1");
  const answers = [];
  for (const email of ["taken@example.test", "nobody@example.test", "quoted@example.test"]) {
    const body = JSON.stringify({ email, login: "taken" });
    const response = await post(`${demo.address}/api/register`, "application/json", body);
    answers.push(`${response.status} ${(await response.json()).message}`);
  }
  checks.same(
    "a login that is taken is answered alike, whoever's the email is",
    [...new Set(answers)].join(),
    "409 This login is taken. Choose another one.",
  );
  await page.close();
  return checks.results;
}

export async function badLinks({ demo }) {
  const checks = new Checks();
  const megabyte = "a".repeat(1_000_000);
  const token = `token=${"A".repeat(147)}`;
  const tries = [
    ["no token", "GET", "/activate", 400, "There is no link here"],
    ["an empty token", "GET", "/activate?token=", 400, "There is no link here"],
    ["two tokens", "GET", `/activate?${token}&${token}`, 400, "These are two links"],
    ["what is no token", "GET", "/activate?token=%3Cb%3E%00%ff", 400, "This link is not complete"],
    [
      "what has the length of no token",
      "GET",
      `/recover?token=${"A".repeat(87)}`,
      400,
      "This link is not complete",
    ],
    [
      "a recovery nobody signed",
      "GET",
      `/recover?token=${forged(2)}`,
      403,
      "This link is not genuine",
    ],
    [
      "an activation nobody signed",
      "POST",
      "/activate",
      403,
      "This link is not genuine",
      FORM,
      `token=${forged(1)}`,
    ],
    ["a method that links have not", "PUT", "/activate", 405, "This is no way to use a link"],
    ["DELETE", "DELETE", `/recover?${token}`, 405, "This is no way to use a link"],
    ["a form without a token", "POST", "/activate", 400, "There is no link here", FORM, ""],
    [
      "a form to be shown without a token",
      "POST",
      "/activate",
      400,
      "There is no link here",
      FORM,
      "show=yes",
    ],
    ["a form with two", "POST", "/activate", 400, "These are two links", FORM, `${token}&${token}`],
    ["JSON", "POST", "/activate", 415, "This is no form of ours", "application/json", "{}"],
    ["no content type", "POST", "/recover", 415, "This is no form of ours", undefined, token],
    ["a megabyte", "POST", "/activate", 413, "That is no link", FORM, `token=${megabyte}`],
    ["a page that is not there", "GET", "/nothing.html", 404, "There is no such page"],
    [
      "a way out of the folder",
      "GET",
      "/..%2f..%2f..%2fetc%2fpasswd",
      404,
      "There is no such page",
    ],
  ];
  for (const [name, method, path, status, title, type, body] of tries) {
    const answer = await ask(demo.address, method, path, type, body);
    checks.same(
      `${name} is answered`,
      `${answer.status} ${/<h1>([^<]*)/.exec(answer.text)?.[1]}`,
      `${status} ${title}`,
    );
    checks.same(
      `${name} is answered under the policy`,
      answer.headers["content-security-policy"],
      /^default-src 'none'/,
    );
  }
  // The server in front of the function answers that one itself.
  const long = await ask(demo.address, "GET", `/activate?token=${megabyte}`);
  checks.same("an address of a megabyte is refused", long.status, 431);
  for (const [name, path, type, body, status] of [
    ["a form where JSON belongs", "/api/register", FORM, "email=a%40b&login=c", 415],
    ["what is no JSON", "/api/register", "application/json", "{", 400],
    ["a list where an object belongs", "/api/request", "application/json", "[]", 400],
    [
      "a megabyte of JSON",
      "/api/register",
      "application/json",
      JSON.stringify({ email: megabyte }),
      413,
    ],
    [
      "an action that is none",
      "/api/request",
      "application/json",
      '{"name":"x","action":"y"}',
      422,
    ],
    [
      "what every object has",
      "/api/request",
      "application/json",
      '{"name":"x","action":"constructor"}',
      422,
    ],
    [
      "an action that is an object",
      "/api/request",
      "application/json",
      '{"name":"x","action":{"toString":1}}',
      422,
    ],
    ["a file of a type that every object has", "/x.constructor", "application/json", "{}", 405],
    ["a count without measure", "/demo/flood", "application/json", '{"count":1e12}', 422],
    ["the origin's own path", "/v1/redeem", "application/json", "{}", 405],
  ]) {
    const response = await post(`${demo.address}${path}`, type, body);
    checks.same(`${name} is refused`, response.status, status);
  }
  checks.same(
    "the same file, asked for",
    (await fetch(`${demo.address}/x.constructor`)).status,
    404,
  );
  await refusesPages(checks, "stage", demo.stage, "/demo/rotate", "{}");
  const events = await fetch(`${demo.stage}/demo/mails`, { headers: { Origin: demo.address } });
  checks.same("the stage shows no page anything, whosever it is", events.status, 403);
  return checks.results;
}

/** A v3 token as it should be, but for its signature. */
function forged(action) {
  const header = Buffer.alloc(14);
  header.set([3, action]);
  header.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 1000) + 900), 6);
  const signature = randomBytes(64);
  signature[63] &= 0x0f;
  return Buffer.concat([header, randomBytes(32), signature]).toString("base64url");
}

function post(url, type, body) {
  return fetch(url, { method: "POST", headers: { "Content-Type": type }, body });
}

/** As bytes on a connection: `fetch` mends some of what is sent. */
async function ask(base, method, path, type, body) {
  const { hostname, port } = new URL(base);
  const headers = type === undefined ? {} : { "Content-Type": type };
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, method, path, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () =>
        resolve({ status: response.statusCode, headers: response.headers, text }),
      );
    });
    // A server may answer before it has read everything, and close.
    sent.on("error", (error) => (sent.res ? undefined : reject(error)));
    sent.end(body);
  });
}
