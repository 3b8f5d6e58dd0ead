// What a visitor sees of the README's page.

import { STRICT_POLICY, withServer } from "../browser/server.mjs";

export function onPage(browser, folder, token) {
  return withServer(folder, { policy: STRICT_POLICY }, async (url) => {
    const complete = await seen(browser, `${url}/?token=${token}`);
    const cut = await seen(browser, `${url}/?token=${token.slice(0, 76)}`);
    return [
      {
        name: "a whole link is called so",
        error: complete === "This link is complete." ? undefined : complete,
      },
      {
        name: "a link that was cut is called so",
        error: cut.startsWith("This link is not complete.") ? undefined : cut,
      },
    ];
  });
}

/** What the page says, or what went wrong in it. */
async function seen(browser, url) {
  const page = await browser.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  try {
    await page.goto(url);
    return [await page.locator("output:not(:empty)").textContent(), ...complaints].join("\n");
  } finally {
    await page.close();
  }
}
