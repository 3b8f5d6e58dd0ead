// A part dies: it is reported by name, the pages say so, and nothing is lost.

import { Checks } from "./checks.mjs";
import { until } from "./demo.mjs";

const PATIENCE = 30_000;

export async function outages({ visitor, demo }) {
  const checks = new Checks();
  visitor.outage = true;
  const page = await visitor.register("outage");
  const link = await visitor.follow(page, "activate");

  // Pressed while the origin is away: given back, and as good as before once it is there again.
  const origin = demo.processOf(/^\S+node \S+origin\.js/);
  process.kill(origin, "SIGSTOP");
  const title = await visitor.press(link);
  checks.same("an origin that does not answer is told", title, "The application does not answer");
  checks.same("with a word on the link", await link.textContent(".alert"), /Your link still works/);
  checks.same("nothing was used", await used(demo, "outage"), 0);
  process.kill(origin, "SIGKILL");
  await until("the report", PATIENCE, () => /origin ended with signal 9/.test(demo.output));
  checks.same("a part that dies is reported by name", demo.output, /origin ended with signal 9; starting it again/);
  await page.waitForSelector('.part-down:has-text("origin")', { timeout: PATIENCE });
  await page.waitForSelector('.part-up:has-text("origin runs")', { timeout: PATIENCE });
  checks.same("the link works again", await visitor.press(link), "Your account is active");
  checks.same("and is used once", await used(demo, "outage"), 1);

  // The database takes no connections and ends those that it has.
  const waiting = await visitor.register("no-database");
  const pressed = await visitor.follow(waiting, "activate");
  await demo.withoutDatabase(async () => {
    await page.waitForSelector('.part-down:has-text("database")', { timeout: PATIENCE });
    checks.same("a database that is away is told", await visitor.press(pressed), "The application does not answer");
    await waiting.fill("#login", "later");
    await waiting.click("#register button");
    await waiting.waitForSelector("#register-note.wrong");
    checks.same(
      "whoever registers is told",
      await waiting.textContent("#register-note"),
      /^The database does not answer/,
    );
  });
  await page.waitForSelector('.part-up:has-text("database")', { timeout: PATIENCE });
  checks.same("the link works once it is back", await visitor.press(pressed), "Your account is active");
  const late = await visitor.register("after-the-outage");
  checks.same("and mails go out again", await late.locator("#mails li").count(), 1);

  // The inbox dies: the collector keeps what it cannot deliver.
  process.kill(demo.processOf(/^\S+node \S+inbox\.js/), "SIGKILL");
  const second = await visitor.open("/");
  await second.fill("#email", "no-inbox@example.test");
  await second.fill("#login", "no-inbox");
  await second.click("#register button");
  await second.waitForSelector('#mails [data-action="activate"] a', { timeout: PATIENCE });
  checks.same("a mail waits for the inbox", await second.locator("#mails li").count(), 1);

  // The edge dies: what it has let through is remembered.
  const replayed = await visitor.link(page, "activate");
  process.kill(demo.processOf(/^\S+workerd serve/), "SIGKILL");
  await page.waitForSelector(".part-down");
  checks.same("a page says that nothing answers", await page.textContent("#parts"), /does not answer/);
  await page.waitForSelector('.part-up:has-text("edge runs")', { timeout: PATIENCE });
  const again = await visitor.open(replayed);
  await again.waitForSelector("#page-check");
  checks.same("a link that was used stays used", await visitor.press(again), "This link was already used");
  const [{ status }] = await demo.query("SELECT status::text FROM accounts WHERE login = 'outage'");
  checks.same("the account is active", status, "active");
  visitor.outage = false;
  for (const opened of [page, link, waiting, pressed, late, second, again]) await opened.close();
  return checks.results;
}

async function used(demo, login) {
  const [{ count }] = await demo.query(
    "SELECT count(consumed_at)::int AS count FROM tokens JOIN accounts ON accounts.id = account WHERE login = $1",
    [login],
  );
  return count;
}
