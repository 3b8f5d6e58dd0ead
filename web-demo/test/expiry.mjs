// A link that nobody presses in time. It is opened early in the run and looked at again at its end.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { PATIENCE } from "../../verifier-wasm/npm/test/waiting.mjs";

/** In seconds; the shortest that the demonstration has. */
const LIFETIME = 60;

/** Where a machine takes longer for a mail than its link lives, it is another one's turn. */
const MOST_PEOPLE = 3;

export async function openShortLived({ visitor, demo }) {
  for (let number = 1; ; number += 1) {
    const login = `too-late-${number}`;
    const before = visitor.pages;
    await demo.change("lifetime", { seconds: LIFETIME });
    const begun = performance.now();
    try {
      const page = await visitor.register(login);
      await demo.change("lifetime", { seconds: 900 });
      return { login, page, link: await visitor.follow(page, "activate") };
    } catch (error) {
      const isLate = performance.now() - begun > LIFETIME * 1_000;
      if (!isLate || number === MOST_PEOPLE) throw error;
      await visitor.closeAllBut(before);
    }
  }
}

export async function pressTooLate({ visitor, demo }, { login, page, link }) {
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
  const [{ status }] = await demo.query("SELECT status::text FROM accounts WHERE login = $1", [
    login,
  ]);
  checks.same("the account stays as it was", status, "provisioned");
  for (const opened of [page, link, later]) await opened.close();
  return checks.results;
}
