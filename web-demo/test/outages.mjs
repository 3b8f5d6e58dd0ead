// A part dies, or stands still: it is reported by name, the pages say what is true,
// and nothing is lost.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { until } from "../../verifier-wasm/npm/test/waiting.mjs";
import { seeing } from "./seeing.mjs";

/** The process of `mailroom serve`. */
const SERVE = /^\S+mailroom serve /;

export async function outages({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("outage");
  const link = await visitor.follow(page, "activate");

  // Pressed while `mailroom serve` stands still: nobody knows what it will do when it goes on, and
  // the page says so.
  const serve = demo.processOf(SERVE);
  process.kill(serve, "SIGSTOP");
  const title = await visitor.press(link);
  checks.same("a server that does not answer is told", title, "The application does not answer");
  checks.same(
    "with what is known of the link",
    await link.textContent(".alert"),
    /It is not known whether this worked/,
  );
  checks.same("nothing was used", await used(demo, "outage"), 0);
  const servesAgain = await seeing(page, ".part-down", "serve");
  process.kill(serve, "SIGKILL");
  await until("the report of the end of mailroom serve", () =>
    /serve ended with signal 9/.test(demo.output),
  );
  checks.same(
    "a part that dies is reported by name",
    demo.output,
    /serve ended with signal 9; starting it again/,
  );
  await servesAgain();
  await page.waitForSelector('.part-up:has-text("serve runs")');
  checks.same("the link works again", await visitor.press(link), "Your account is active");
  checks.same("and is used once", await used(demo, "outage"), 1);

  // The database takes no connections and ends those that it has.
  const waiting = await visitor.register("no-database");
  const pressed = await visitor.follow(waiting, "activate");
  await demo.withoutDatabase(async () => {
    await page.waitForSelector('.part-down:has-text("database")');
    checks.same(
      "a database that is away is told",
      await visitor.press(pressed),
      "The application does not answer",
    );
    checks.same(
      "with what is known of that",
      await pressed.textContent(".alert"),
      /nothing was done\. Your link still works/,
    );
    await waiting.fill("#login", "later");
    await waiting.click("#register button");
    await waiting.waitForSelector("#register-note.wrong");
    checks.same(
      "whoever registers is told",
      await waiting.textContent("#register-note"),
      /^The database does not answer/,
    );
  });
  await page.waitForSelector('.part-up:has-text("database")');
  checks.same(
    "the link works once it is back",
    await visitor.press(pressed),
    "Your account is active",
  );
  const late = await visitor.register("after-the-outage");
  checks.same("and mails go out again", await late.locator("#mails li").count(), 1);

  // The inbox dies: the collector keeps what it cannot deliver.
  process.kill(demo.processOf(/^\S+\/mailroom-inbox$/), "SIGKILL");
  const second = await visitor.open("/");
  await second.fill("#email", "no-inbox@example.test");
  await second.fill("#login", "no-inbox");
  await second.click("#register button");
  await visitor.mail(second, "activate");
  checks.same("a mail waits for the inbox", await second.locator("#mails li").count(), 1);

  // The edge dies: what it has let through is remembered.
  const replayed = await visitor.link(page, "activate");
  const edgeIsDown = await seeing(page, ".part-down", "does not answer");
  process.kill(demo.processOf(/^\S+workerd serve/), "SIGKILL");
  checks.same("a page says that nothing answers", await edgeIsDown(), true);
  await page.waitForSelector('.part-up:has-text("edge runs")');
  const again = await visitor.open(replayed);
  await again.waitForSelector("#page-check");
  checks.same(
    "a link that was used stays used",
    await visitor.press(again),
    "This link was already used",
  );
  const [{ status }] = await demo.query("SELECT status::text FROM accounts WHERE login = 'outage'");
  checks.same("the account is active", status, "active");
  for (const opened of [page, link, waiting, pressed, late, second, again]) await opened.close();
  return checks.results;
}

/** What was asked goes on after whoever asked was told that it may not have worked. */
export async function standingStill({ visitor, demo }) {
  const checks = new Checks();
  for (const [name, processes] of [
    ["server", () => [demo.processOf(SERVE)]],
    ["database", () => backends(demo)],
  ]) {
    const login = `still-${name}`;
    const page = await visitor.register(login);
    const link = await visitor.follow(page, "activate");
    // So that there is a connection to stop.
    const other = await visitor.register(`${login}-other`);
    const pressed = await visitor.follow(other, "activate");
    checks.same("another link works", await visitor.press(pressed), "Your account is active");
    for (const opened of [other, pressed]) await opened.close();
    const stopped = await processes();
    checks.same(`the ${name} has processes to stop`, stopped.length > 0, true);
    for (const id of stopped) process.kill(id, "SIGSTOP");
    let title;
    try {
      title = await visitor.press(link);
    } finally {
      for (const id of stopped) process.kill(id, "SIGCONT");
    }
    checks.same(`a ${name} that stands still is told`, title, "The application does not answer");
    checks.same(
      `and what is not known, ${name}`,
      await link.textContent(".alert"),
      "It is not known whether this worked. Try again in a moment: " +
        "if it then says that the link was used, it has worked.",
    );
    // Whether what was begun is done, and when, is for the database.
    const again = await until(`what has become of it, ${name}`, async () => {
      const pressed = await visitor.press(link);
      return pressed !== title && pressed;
    });
    const known = ["Your account is active", "This link was already used"];
    checks.same(
      `pressed again it says what has become of it, ${name}: ${again}`,
      known.includes(again),
      true,
    );
    checks.same(`the link was used once, ${name}`, await used(demo, login), 1);
    const [{ status }] = await demo.query("SELECT status::text FROM accounts WHERE login = $1", [
      login,
    ]);
    checks.same(`the account is active, ${name}`, status, "active");
    for (const opened of [page, link]) await opened.close();
  }
  return checks.results;
}

/**
 * A statement that waits for too long is ended by the server: nothing of it happens after the page
 * has said so.
 */
export async function rowThatIsHeld({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("held");
  const link = await visitor.follow(page, "activate");
  await demo.holding("SELECT FROM accounts WHERE login = 'held' FOR UPDATE", async () => {
    checks.same(
      "a database that is held up is told",
      await visitor.press(link),
      "The application does not answer",
    );
    // A server that is late itself leaves the edge without an answer, and then nobody knows.
    await until("a page that knows that nothing was done", async () => {
      if (/nothing was done\. Your link still works/.test(await link.textContent(".alert")))
        return true;
      await visitor.press(link);
      return false;
    });
    checks.same("and that nothing was done", await used(demo, "held"), 0);
  });
  await link.waitForTimeout(1_500);
  checks.same("nothing is done afterwards either", await used(demo, "held"), 0);
  checks.same("the link works again", await visitor.press(link), "Your account is active");
  checks.same("and is used once", await used(demo, "held"), 1);
  for (const opened of [page, link]) await opened.close();
  return checks.results;
}

/**
 * Presses during an outage lock nobody out, in whichever format;
 * the database has counted none of them.
 */
export async function recoveringInAnOutage({ visitor, demo }) {
  const checks = new Checks();
  for (const format of ["v3", "v2", "v1"]) {
    const login = `locked-out-${format}`;
    await demo.change("format", { format });
    const page = await visitor.register(login);
    await visitor.press(await visitor.follow(page, "activate"));
    await page.waitForSelector("#status.badge-active");
    const code = await visitor.recover(page);
    const link = await visitor.follow(page, "recover");
    await demo.withoutDatabase(async () => {
      for (let press = 1; press <= 6; press += 1) {
        checks.same(
          `${format}: press ${press} is told`,
          await visitor.press(link, code),
          "The application does not answer",
        );
      }
      // A server that is late itself leaves the edge without an answer, and then nobody knows.
      await until(`a page that knows that no try was counted, ${format}`, async () => {
        if (/The code was not counted as a try/.test(await link.textContent(".alert"))) return true;
        await visitor.press(link, code);
        return false;
      });
    });
    await page.waitForSelector('.part-up:has-text("database")');
    checks.same(
      `${format}: then the code works`,
      await visitor.press(link, code),
      "Your account is recovered",
    );
    const [{ tries }] = await demo.query(
      `SELECT count(*)::int AS tries FROM mailroom.code_attempts JOIN tokens ON tokens.id = token
      JOIN accounts ON accounts.id = account WHERE login = $1`,
      [login],
    );
    checks.same(`${format}: the database has counted one`, tries, 1);
    for (const opened of [page, link]) await opened.close();
  }
  return checks.results;
}

/** Whoever stops a part wants it stopped, also when it was about to be started again. */
export async function staysKilled({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.open("/pipeline");
  await page.waitForSelector('.part-up:has-text("collector")');
  const collector = demo.processOf(/mailroom collect /);
  const isDown = await seeing(page, ".part-down", "collector");
  process.kill(collector, "SIGKILL");
  await isDown();
  await page.click("#collector");
  await page.waitForSelector('.part-stopped:has-text("collector was stopped")');
  await page.waitForTimeout(4_000);
  checks.same("it stays stopped", await page.textContent(".part-stopped"), "collector was stopped");
  checks.same("and no process of it runs", demo.has(/mailroom collect /), false);
  await page.click('#collector:has-text("Start")');
  await page.waitForSelector('.part-up:has-text("collector")');
  checks.same("until it is started", demo.has(/mailroom collect /), true);
  await page.close();
  return checks.results;
}

/** A page begins at once, whatever the inbox does. */
export async function beginsWithoutTheInbox({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("begins");
  const inbox = demo.processOf(/^\S+\/mailroom-inbox$/);
  process.kill(inbox, "SIGSTOP");
  try {
    await page.reload();
    // Sooner than the stage gives up the inbox (web-demo/stage/controls.ts).
    await page.waitForSelector('.part-up:has-text("edge runs")');
    checks.same(
      "the parts are shown while the inbox stands still",
      (await page.locator(".part-up").count()) >= 4,
      true,
    );
  } finally {
    process.kill(inbox, "SIGCONT");
  }
  await page.reload();
  await visitor.mail(page, "activate");
  checks.same("and the mails once it goes on", await page.locator("#mails li").count(), 1);
  await page.close();
  return checks.results;
}

async function backends(demo) {
  const rows = await demo.query(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename LIKE " +
      "'%\\_server'",
  );
  return rows.map(({ pid }) => pid);
}

async function used(demo, login) {
  const [{ count }] = await demo.query(
    "SELECT count(consumed_at)::int AS count FROM tokens JOIN accounts ON accounts.id = account " +
      "WHERE login = $1",
    [login],
  );
  return count;
}
