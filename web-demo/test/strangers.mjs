// Links that are genuine and of no use: of an account that was suspended,
// and on the page of the other action.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";

export async function suspended({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("suspended");
  const link = await visitor.follow(page, "activate");
  await demo.query("UPDATE accounts SET status = 'suspended' WHERE login = 'suspended'");
  checks.same(
    "its activation reports no success",
    await visitor.press(link),
    "This account cannot use the link now",
  );
  checks.same(
    "and says why",
    await link.textContent(".alert"),
    /waits for its activation.*is suspended/,
  );
  checks.same(
    "with a button for when that changes",
    await link.locator("#redeem button").count(),
    1,
  );
  const state =
    "SELECT status::text, count(consumed_at)::int AS used FROM accounts JOIN tokens ON " +
    "account = accounts.id";
  const [{ status, used }] = await demo.query(`${state} WHERE login = 'suspended' GROUP BY status`);
  checks.same(
    "the account stays suspended and the link unused",
    `${status} ${used}`,
    "suspended 0",
  );
  await demo.query("UPDATE accounts SET status = 'provisioned' WHERE login = 'suspended'");
  checks.same("later the same link activates", await visitor.press(link), "Your account is active");
  for (const opened of [page, link]) await opened.close();
  return checks.results;
}

export async function otherPage({ visitor }) {
  const checks = new Checks();
  const page = await visitor.register("other-page");
  const activation = await visitor.link(page, "activate");
  const wrong = await visitor.open(activation.replace("/activate", "/recover"));
  checks.same(
    "an activation on /recover",
    await wrong.textContent("h1"),
    "This link is for something else",
  );
  await visitor.press(await visitor.follow(page, "activate"));
  await visitor.recover(page);
  const recovery = (await visitor.link(page, "recover")).replace("/recover", "/activate");
  const other = await visitor.open(recovery);
  checks.same(
    "a recovery on /activate",
    await other.textContent("h1"),
    "This link is for something else",
  );
  visitor.expectNoToken(other);
  for (const opened of [page, wrong, other]) await opened.close();
  return checks.results;
}

/** The token leaves the address before the page's large script is there. */
export async function addressFirst({ visitor }) {
  const checks = new Checks();
  const page = await visitor.register("address");
  const href = await visitor.link(page, "activate");
  const link = await visitor.open("/");
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await link.route("**/assets/{link,public}.js", async (route) => {
    await held;
    await route.continue();
  });
  await link.goto(new URL(href, link.url()).href, { waitUntil: "commit" });
  await link.waitForSelector("#redeem button");
  checks.same(
    "the address has no token while the other scripts are on their way",
    new URL(link.url()).search,
    "",
  );
  checks.same("they are", await link.locator("#page-check").count(), 0);
  const first = await link.evaluate(() => document.scripts[0].getAttribute("src"));
  checks.same("it is the first script", first, "/assets/address.js");
  release();
  await link.waitForSelector("#page-check");
  await link.goBack();
  await link.goForward();
  checks.same("nor when somebody comes back", new URL(link.url()).search, "");
  for (const opened of [page, link]) await opened.close();
  return checks.results;
}
