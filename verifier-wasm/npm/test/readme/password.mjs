// The form with a new password of the REFERENCE, on a database that remembers what it was asked,
// and answers as Mailroom's does.

import { scryptSync } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { write } from "../runtimes/consumer.mjs";
import { commands } from "./document.mjs";

const MIGRATION = fileURLToPath(
  new URL("../../../../migrations/1_create_mailroom.up.sql", import.meta.url),
);

/**
 * A stand-in for the package `pg`: what it was asked is in `globalThis.queries`, and
 * `globalThis.answer` says the verdict.
 */
const PG = `
const query = async (text, values = []) => {
  globalThis.queries.push([text, ...values]);
  if (text.includes("mailroom.redeem")) {
    return { rows: [{ verdict: globalThis.answer(values), subject_id: "7" }] };
  }
  if (text.includes("browser_code(")) return { rows: [{ digits: "31943" }] };
  if (text.startsWith("UPDATE") && globalThis.breaks) throw new Error("no connection");
  return { rows: [] };
};
class Pool {
  query = query;
  async connect() {
    if (globalThis.isAway) throw new Error("no connection");
    return { query, release: () => globalThis.queries.push(["release"]) };
  }
}
export default { Pool };
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
  for (const name of ["reset.js", "database.js"]) write(place, name, shown[name]);
  process.env.MAILROOM_SECRET_KEY = /keys: "([0-9a-f]{64})"/.exec(shown["redeem.mjs"])[1];
  const { reset } = await import(pathToFileURL(join(place, "reset.js")));
  const { redeem, requestLink } = await import(pathToFileURL(join(place, "database.js")));
  const { text: command } = commands(document).find(({ text }) =>
    text.startsWith("node redeem.mjs"),
  );
  const [, token] = command.match(/Ag[\w-]{100,}/g);
  const press = async (code, password) => {
    globalThis.queries = [];
    const headers = { Origin: "https://app.example" };
    const body = new URLSearchParams({ token, code, password });
    const answer = await reset(
      new Request("https://app.example/reset", { method: "POST", headers, body }),
    );
    return {
      status: answer.status,
      text: await answer.text(),
      steps: globalThis.queries.map(([text]) => text.split(" ")[0]),
    };
  };
  globalThis.answer = () => "ok";
  const shownPage = await reset(new Request(`https://app.example/reset?token=${token}`));
  const form = await shownPage.text();
  same("the form asks for both", /name="code".*name="password".*<button>/s.test(form), true);
  const short = await press("31943", "short");
  same(
    "a short password is told",
    short.text.includes("Choose a password of at least ten characters."),
    true,
  );
  same("and asks nobody", `${short.status} ${short.steps}`, "422 ");
  globalThis.answer = () => "wrong_code";
  const wrong = await press("31943", "correct horse");
  same(
    "a wrong code is committed",
    `${wrong.status} ${wrong.steps}`,
    "422 BEGIN,SELECT,COMMIT,release",
  );
  globalThis.answer = () => "ok";
  globalThis.breaks = true;
  const broken = await press("31943", "correct horse");
  same(
    "a change that fails is rolled back",
    `${broken.status} ${broken.steps}`,
    "503 BEGIN,SELECT,UPDATE,ROLLBACK,release",
  );
  globalThis.breaks = false;
  globalThis.isAway = true;
  same("a database that is away does nothing", (await press("31943", "correct horse")).status, 503);
  globalThis.isAway = false;
  const done = await press("319 43", "correct horse");
  same(
    "a new password is set",
    `${done.status} ${done.steps}`,
    "200 BEGIN,SELECT,UPDATE,COMMIT,release",
  );
  const [, [, secret, action, code, isProven, digits], [, id, salt, hash]] = globalThis.queries;
  same(
    "the database gets the link and its code",
    `${secret.length} ${action} ${code} ${isProven} ${digits}`,
    "32 recover 31943 false null",
  );
  same(
    "the user's password is the one that was typed",
    hash.equals(scryptSync("correct horse", salt, 32)) && id === "7",
    true,
  );
  same("once", (await press("31943", "correct horse")).status, 409);
  globalThis.queries = [];
  const without = await redeem({ action: "recover", fields: new URLSearchParams() });
  same(
    "a page without the field sets no empty password",
    `${without.again} ${globalThis.queries.length}`,
    "Choose a password of at least ten characters. 0",
  );
  same("it says that attempts are counted", redeem.countsAttempts, true);
  const sent = new FormData();
  sent.set("email", "ada@example.test");
  same("a link is asked for", await requestLink(sent, new Uint8Array(16)), "31943");
  return results;
}

/** The actions that the REFERENCE lists are those that the database comes with. */
export function shippedActions(source) {
  const migration = readFileSync(MIGRATION, "utf8");
  const [, rows] =
    /INSERT INTO mailroom\.actions \(number, name, path, code_digits.*?VALUES\n(.*?);/s.exec(
      migration,
    );
  const shipped = [...rows.matchAll(/\((\d+), '(\w+)', '([^']+)', (\d+),/g)]
    .map(
      ([, number, name, path, digits]) =>
        `${name}: { number: ${number}, path: "${path}", digits: ${digits} }`,
    )
    .filter((line) => !/^(activate|recover):/.test(line));
  const listed = [...source.matchAll(/^ {2}(\w+: \{ number: .* \}),$/gm)].map(([, line]) => line);
  const [found, expected] = [listed, shipped].map((lines) => lines.toSorted().join("\n"));
  return [
    { name: "there are some", error: shipped.length > 1 ? undefined : rows },
    {
      name: "they are the same",
      error: found === expected ? undefined : `${found}\ninstead of\n${expected}`,
    },
  ];
}
