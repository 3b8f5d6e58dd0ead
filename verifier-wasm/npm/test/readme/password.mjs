// The form with a new password of the REFERENCE, on a database that remembers what it was asked,
// and answers as Mailroom's does.

import { scryptSync } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { write } from "../runtimes/consumer.mjs";
import { until } from "../waiting.mjs";
import { commands, withoutTypes } from "./document.mjs";

/**
 * A stand-in for the package `pg`: what it was asked is in `globalThis.queries`, and
 * `globalThis.answer` says the verdict.
 */
const PG = `
const query = async (text, values = []) => {
  globalThis.queries.push([text, ...values]);
  if (text.includes('"mailroom".redeem')) {
    const verdict = globalThis.answer(values);
    const answer = { verdict, token: "1", subject_id: "7", transaction: "9" };
    return { rows: [{ answer: JSON.stringify(answer) }] };
  }
  if (text.includes(".renew_link(")) return { rows: [{ answer: "" }] };
  if (text.includes("browser_code(")) return { rows: [{ answer: "31943" }] };
  if (text.includes(".enqueue(")) return { rows: [{ answer: "1" }] };
  if (text.startsWith("SELECT pg_current")) return { rows: [{ answer: "9" }] };
  if (text.startsWith("UPDATE") && globalThis.breaks) throw new Error("no connection");
  if (text.startsWith("INSERT INTO users"))
    return { rows: values[0] === "ada@example.test" ? [] : [{ id: "7" }] };
  if (text.includes("FROM users")) return { rows: [{ id: "7", email: values[0] }] };
  return { rows: [] };
};
export class Pool {
  query = query;
  on() {}
  async connect() {
    if (globalThis.isAway) throw new Error("no connection");
    return { query, release: () => globalThis.queries.push(["release"]) };
  }
}
`;

export async function newPassword(place, shown, document) {
  const results = [];
  const same = (name, actual, expected) =>
    results.push({
      name,
      error: actual === expected ? undefined : `${actual} instead of ${expected}`,
    });
  mkdirSync(join(place, "node_modules/pg"), { recursive: true });
  write(
    place,
    "node_modules/pg/package.json",
    '{ "name": "pg", "type": "module", "exports": "./index.js" }',
  );
  write(place, "node_modules/pg/index.js", PG);
  write(place, "package.json", '{ "type": "module" }');
  write(place, "accounts.js", withoutTypes(shown["accounts.ts"]));
  process.env.MAILROOM_SECRET_KEY = /keys: "([0-9a-f]{64})"/.exec(shown["redeem.mjs"])[1];
  const { links, redeem, register, requestLink } = await import(
    pathToFileURL(join(place, "accounts.js"))
  );
  const { text: command } = commands(document).find(({ text }) =>
    text.startsWith("node redeem.mjs"),
  );
  const [activation, token] = command.match(/Ag[\w-]{100,}/g);
  const press = async (code, password) => {
    globalThis.queries = [];
    const headers = { Origin: "https://app.example" };
    const body = new URLSearchParams({ token, code, password });
    const answer = await links(
      new Request("https://app.example/recover", { method: "POST", headers, body }),
    );
    return {
      status: answer.status,
      text: await answer.text(),
      steps: globalThis.queries.map(([text]) => text.split(" ")[0]),
    };
  };
  globalThis.answer = () => "ok";
  const shownPage = await links(new Request(`https://app.example/recover?token=${token}`));
  const form = await shownPage.text();
  same("the form asks for both", /name="code".*name="password".*<button>/s.test(form), true);
  const short = await press("31943", "short");
  const first = await links(new Request(`https://app.example/activate?token=${activation}`));
  same("who signs up gets a password", /name="password".*<button>/s.test(await first.text()), true);
  same(
    "a short password is told",
    short.text.includes("A password needs 15 to 256 characters."),
    true,
  );
  same("and asks nobody", `${short.status} ${short.steps}`, "422 ");
  globalThis.answer = () => "wrong_code";
  const wrong = await press("31943", "correct horse battery");
  same(
    "a wrong code is committed",
    `${wrong.status} ${wrong.steps}`,
    "422 BEGIN,SELECT,COMMIT,release",
  );
  globalThis.answer = () => "ok";
  globalThis.breaks = true;
  const broken = await press("31943", "correct horse battery");
  same(
    "a change that fails is rolled back",
    `${broken.status} ${broken.steps}`,
    "503 BEGIN,SELECT,UPDATE,SELECT,ROLLBACK,release",
  );
  globalThis.breaks = false;
  globalThis.isAway = true;
  same(
    "and the page says that nothing was done",
    broken.text.includes("Nothing was done, and your link still works."),
    true,
  );
  same(
    "a database that is away does nothing",
    (await press("31943", "correct horse battery")).status,
    503,
  );
  globalThis.isAway = false;
  const done = await press("319 43", "correct horse battery");
  same(
    "a new password is set",
    `${done.status} ${done.steps}`,
    "200 BEGIN,SELECT,UPDATE,UPDATE,DELETE,SELECT,COMMIT,release",
  );
  const [, [, action, isProven, typed, secret], [, id, salt, hash]] = globalThis.queries;
  same(
    "the database gets the link and its code",
    `${secret.length} ${action} ${typed} ${isProven}`,
    "64 recover 31943 false",
  );
  same(
    "the user's password is the one that was typed",
    hash.equals(scryptSync("correct horse battery", salt, 32)) && id === "7",
    true,
  );
  const again = await press("31943", "correct horse battery");
  same("once", again.status, 409);
  same(
    "a used link has a button",
    /<button name="renew".*href="\/forgot".*href="\/login"/s.test(again.text),
    true,
  );
  globalThis.queries = [];
  const renewed = await links(
    new Request("https://app.example/recover", {
      method: "POST",
      headers: { Origin: "https://app.example" },
      body: new URLSearchParams({ token, renew: "yes" }),
    }),
  );
  same(
    "which asks for a new one",
    `${renewed.status} ${globalThis.queries[0]?.[0].includes(".renew_link(")}`,
    "202 true",
  );
  globalThis.queries = [];
  const secretOfLink = new Uint8Array(32);
  const without = await redeem({
    action: "recover",
    secret: secretOfLink,
    fields: new URLSearchParams(),
  });
  same(
    "a page without the field sets no empty password",
    `${without.away?.message} ${globalThis.queries.map(([text]) => text.split(" ")[0])}`,
    "the handler needs the option password BEGIN,SELECT,SELECT,ROLLBACK,release",
  );
  same("it says that attempts are counted", redeem.countsAttempts, true);
  const sent = new FormData();
  sent.set("email", "ada@example.test");
  const waited = [];
  const context = { waitUntil: (promise) => waited.push(promise) };
  const digits = await requestLink(sent, new Uint8Array(16), context);
  same("a link is asked for", digits, "31943");
  await waited[0];
  // Whoever asks does not wait for it.
  const [, ...made] = await until("the link", () =>
    globalThis.queries.find(([text]) => text.includes(".enqueue(")),
  );
  same(
    "for the user who has the address",
    made.join(),
    `recover,${"00".repeat(16)},ada@example.test,7`,
  );
  same("a Worker waits for it", waited.length, 1);
  globalThis.queries = [];
  await register("bob@example.test");
  same(
    "a user and the mail are made in one transaction",
    globalThis.queries.map(([text]) => text.split(" ")[0]).join(),
    "BEGIN,INSERT,SELECT,COMMIT,release",
  );
  globalThis.queries = [];
  await register("ada@example.test");
  same(
    "who has an account gets no mail",
    globalThis.queries.map(([text]) => text.split(" ")[0]).join(),
    "BEGIN,INSERT,COMMIT,release",
  );
  return results;
}
