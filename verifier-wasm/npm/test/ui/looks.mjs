// What an operator sees: the link of the terminal opens the queue, figures move while the page is
// open, each page is for everybody (axe, two widths, light and dark), and nothing runs that came
// with a mail.

import { join } from "node:path";

import { axe } from "../browser/axe.mjs";
import { Checks } from "../checks.mjs";
import { PATIENCE, until } from "../waiting.mjs";

/** What would run if a page took it for its own. */
const HOSTILE = '<img src=x onerror=alert(1)><script>document.title = "run"</script>';

/** A mail that was given up, an address that is suppressed, and two mails to send. */
const ROWS = `
  SELECT mailroom.enqueue('invite', 'eve@example.test');
  INSERT INTO mailroom.dead_letters
    (token, died_at, expires_at, attempts, failures, priority, secret, code, reason)
    SELECT token, now(), expires_at, 8, 8, priority, secret, code, '${HOSTILE}'
      FROM mailroom.queue JOIN mailroom.issued_tokens ON id = token;
  DELETE FROM mailroom.queue;
  SELECT mailroom.suppress('mallory@example.test', 'bounce', 'ses', '${HOSTILE}');
  SELECT mailroom.enqueue('invite', 'bob@example.test');
  SELECT mailroom.enqueue('sign_in', 'carol@example.test', subject_id => '6');
`;

const WAITING = "SELECT mailroom.enqueue('activate', 'ada@example.test', subject_id => '7')";

export async function looks(chromium, { client, link, collectOnce, pictures }) {
  const { origin } = new URL(link);
  const checks = new Checks();
  await client.query(ROWS);
  collectOnce();
  await client.query(WAITING);
  const context = await chromium.newContext();
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => complaints.push(dialog.message()));
  page.on("request", (request) => {
    if (!/^data:/.test(request.url()) && !request.url().startsWith(`${origin}/`)) {
      complaints.push(`asked for ${request.url()}`);
    }
  });

  await page.goto(origin);
  await page.getByRole("heading", { name: "Open the link of the terminal" }).waitFor();
  await look(page, checks, pictures, "sign_in");
  await page.getByLabel("One-time password").fill("0".repeat(64));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("That is not the password").waitFor();

  await page.goto(link);
  await page.getByRole("heading", { name: "Queue", exact: true }).waitFor();
  checks.same("the password is in no address", page.url(), `${origin}/`);
  const [cookie] = await context.cookies();
  checks.same("no script reads the cookie", cookie.httpOnly, true);
  checks.same("no other site brings the cookie", cookie.sameSite, "Strict");
  const number = (name) => {
    const heading = page.getByRole("heading", { name, exact: true });
    return page.locator(".cards li").filter({ has: heading }).locator(".number");
  };
  checks.same("what waits", await number("Waiting").textContent(), "1");
  checks.same("what was sent", await number("Sent").textContent(), "2");
  checks.same("what was given up", await number("Dead letters").textContent(), "1");
  await look(page, checks, pictures, "queue");

  await client.query("SELECT mailroom.enqueue('activate', 'bob@example.test', subject_id => '8')");
  await until("the figure moves", async () => (await number("Waiting").textContent()) === "2");
  await page.locator("#age", { hasText: "As of" }).waitFor();
  await look(page, checks, pictures, "later");

  await page.getByRole("link", { name: "Dead letters" }).click();
  await page.getByText(HOSTILE).waitFor();
  await look(page, checks, pictures, "dead");
  await page.getByRole("link", { name: "1", exact: true }).click();
  await page.getByRole("heading", { name: "Story of token 1" }).waitFor();
  checks.same("a token has an address", page.url(), `${origin}/tokens/1`);
  await look(page, checks, pictures, "story");
  await page.getByRole("link", { name: "Suppressed" }).click();
  await page.getByText("mallory@example.test").waitFor();
  await look(page, checks, pictures, "suppressed");
  await page.getByRole("link", { name: "Runs" }).click();
  await page.getByRole("heading", { name: "Runs of collectors" }).waitFor();
  await page.getByText(/2 sent/).waitFor();
  await look(page, checks, pictures, "runs");

  await page.getByLabel("What became of a token or an address?").fill("ada@example.test");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Story of ada@example.test" }).waitFor();
  checks.same("an address of somebody is in no address of a page", page.url(), /\/find$/);
  checks.same("and in no title", await page.title(), "Story of an address · Mailroom");
  await page.getByLabel("What became of a token or an address?").fill("nobody");
  await page.keyboard.press("Enter");
  await page.getByText("Give the id of a token").waitFor();

  const second = await chromium.newContext();
  second.setDefaultTimeout(PATIENCE);
  const stranger = await second.newPage();
  await stranger.goto(link);
  await stranger.getByText("A browser has used the password.").waitFor();
  checks.same("the link works once", await stranger.locator("h1").textContent(), /^Open the link/);
  await second.close();

  checks.none("nothing of a mail runs, and nothing is loaded from elsewhere", complaints);
  await context.close();
  return checks.results;
}

/** Looks at a page at two widths, light and dark. */
async function look(page, checks, pictures, name) {
  for (const [width, colorScheme] of [
    [360, "dark"],
    [1280, "light"],
  ]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    checks.none(`${name}, ${width} px, ${colorScheme}: axe finds nothing`, await axe(page));
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    checks.same(`${name}, ${width} px: the page fits`, wider <= 0, true);
    await page.screenshot({ path: join(pictures, `${name}-${width}.png`) });
  }
}
