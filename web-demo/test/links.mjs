// One link's way in each format: activated, replayed, recovered, locked;
// the database is looked at afterwards.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";

const PAGE_CHECK = {
  v3: /^✓page This page has verified it/,
  v2: /^–page A v2 link needs/,
  v1: /^–page A v1 link needs/,
};

/** Where wrong codes are stopped: what the edge can judge never gets to the database. */
const COUNTED_BY_DATABASE = { v3: 5, v2: 0, v1: 5 };

const WRONG = ["00000", "11111", "22222", "33333", "44444", "55555"];

export async function linksOf(format, { visitor, demo }) {
  const checks = new Checks();
  const login = `links-${format}`;
  await demo.change("format", { format });
  const page = await visitor.register(login);
  const status = () => page.textContent("#status");
  checks.same("a registered account is provisioned", await status(), "provisioned");
  const activation = await visitor.follow(page, "activate");
  checks.same(
    "the page says what it can verify itself",
    await text(activation, "#page-check"),
    PAGE_CHECK[format],
  );
  checks.same("opening a link changes nothing", await status(), "provisioned");
  checks.same("the button activates", await visitor.press(activation), "Your account is active");
  await page.waitForSelector("#status.badge-active");
  checks.same("the account's state changes live", await status(), "active");
  const replayed = await visitor.follow(page, "activate");
  checks.same(
    "a used link says that it was used",
    await visitor.press(replayed),
    "This link was already used",
  );

  const code = await visitor.recover(page);
  const guesses = WRONG.filter((guess) => guess !== code).slice(0, 5);
  const recovery = await visitor.follow(page, "recover");
  for (const [at, guess] of guesses.entries()) {
    checks.same(
      `wrong code ${at + 1} is refused`,
      await visitor.press(recovery, guess),
      "That is not the code",
    );
  }
  checks.same(
    "after five even the right code",
    await visitor.press(recovery, code),
    "Too many codes were tried",
  );
  const tries = await triesOf(demo, login);
  checks.same("codes that the database counted", tries, COUNTED_BY_DATABASE[format]);

  const second = await visitor.recover(page);
  const link = await visitor.follow(page, "recover");
  checks.same(
    "another link and its code recover",
    await visitor.press(link, second),
    "Your account is recovered",
  );
  const [row] = await demo.query(
    `SELECT status::text,
        bool_and(consumed_at IS NOT NULL) FILTER (WHERE action = 'activation') AS activated,
        count(*) FILTER (WHERE action = 'password_recovery') = 2
            AND bool_and(consumed_at IS NOT NULL) FILTER (WHERE action = 'password_recovery')
            AS recovered
    FROM accounts JOIN tokens ON tokens.account = accounts.id
    WHERE login = $1 GROUP BY accounts.id`,
    [login],
  );
  checks.same("the database has the account active", row.status, "active");
  checks.same("the database has used the activation", row.activated, true);
  // The locked one goes with the one that was used.
  checks.same("the database has ended both recoveries", row.recovered, true);
  for (const opened of [page, activation, replayed, recovery, link]) await opened.close();
  return checks.results;
}

async function text(page, selector) {
  return (await page.textContent(selector)).replace(/\s+/g, " ");
}

async function triesOf(demo, login) {
  const [{ tries }] = await demo.query(
    `SELECT count(*)::int AS tries
    FROM mailroom.code_attempts
        JOIN tokens ON tokens.id = token
        JOIN accounts ON accounts.id = tokens.account
    WHERE login = $1`,
    [login],
  );
  return tries;
}
