// A link that nobody presses in time. It is opened early in the run and looked at again at its end.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { PATIENCE } from "../../verifier-wasm/npm/test/waiting.mjs";

export async function openShortLived({ visitor, demo }) {
  await demo.change("lifetime", { seconds: 60 });
  const page = await visitor.register("too-late");
  await demo.change("lifetime", { seconds: 900 });
  const link = await visitor.follow(page, "activate");
  return { page, link };
}

export async function pressTooLate({ visitor, demo }, { page, link }) {
  const checks = new Checks();
  await link.waitForFunction(
    () => document.querySelector("#countdown").textContent.includes("has expired"),
    undefined,
    { timeout: 60_000 + PATIENCE },
  );
  checks.same(
    "the open page says that the time is over",
    await link.textContent("#countdown"),
    /^This link has expired/,
  );
  checks.same(
    "pressed all the same, the edge says so",
    await visitor.press(link),
    "This link has expired",
  );
  const later = await visitor.open(await visitor.link(page, "activate"));
  checks.same("opened, the edge says so", await later.textContent("h1"), "This link has expired");
  const [{ status }] = await demo.query(
    "SELECT status::text FROM accounts WHERE login = 'too-late'",
  );
  checks.same("the account stays as it was", status, "provisioned");
  for (const opened of [page, link, later]) await opened.close();
  return checks.results;
}
