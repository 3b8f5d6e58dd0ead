// Two tabs press at the same moment.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";

export async function twoTabs({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("two-tabs");
  const tabs = [await visitor.follow(page, "activate"), await visitor.follow(page, "activate")];
  const titles = await Promise.all(tabs.map((tab) => visitor.press(tab)));
  checks.same(
    "one tab succeeds",
    titles.filter((title) => title === "Your account is active").length,
    1,
  );
  checks.same(
    "the other one reads",
    titles.filter((title) => title === "This link was already used").length,
    1,
  );
  const [{ status }] = await demo.query(
    "SELECT status::text FROM accounts WHERE login = 'two-tabs'",
  );
  checks.same("the account is active", status, "active");
  for (const opened of [page, ...tabs]) await opened.close();
  return checks.results;
}
