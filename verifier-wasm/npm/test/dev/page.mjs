// The inbox's page: for everybody (axe, two widths, light and dark), and what it does with a mail.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { axe } from "../browser/axe.mjs";
import { Checks } from "../checks.mjs";
import { until } from "../waiting.mjs";

/** What white and the dark of the shipped mails are. */
const LIGHT = "rgb(255, 255, 255)";
const DARK = "rgb(22, 24, 29)";

export async function page(context, { site, inbox, pictures }) {
  const checks = new Checks();
  mkdirSync(pictures, { recursive: true });
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("request", (request) => {
    if (!/^data:/.test(request.url()) && !request.url().startsWith(`${inbox.address}/`)) {
      complaints.push(`asked for ${request.url()}`);
    }
  });
  await page.goto(inbox.address);
  // A mail comes while the page is open.
  await site.mailroom.enqueue({ action: "invite", recipientEmail: "eve@example.test" });
  await page.getByRole("button", { name: /eve@example\.test, invite/ }).click();
  const link = await page.getAttribute("#link", "href");
  checks.same(
    "its link leads to the application",
    link?.startsWith(`${site.address}/invite`),
    true,
  );

  for (const [width, colorScheme] of [
    [360, "dark"],
    [1440, "light"],
  ]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    for (const [button, expected] of [
      ["Light", LIGHT],
      ["Dark", DARK],
    ]) {
      await page.getByRole("button", { name: button, exact: true }).click();
      const name = `${width} px, ${colorScheme}, ${button}`;
      for (const frame of await frames(page, button.toLowerCase())) {
        await until(`${name}: the mail has the color ${expected}`, async () => {
          // Each press loads the frame anew, which ends a look at it.
          const found = await frame.evaluate(color).catch(() => "");
          return found === expected;
        });
      }
      // A mail is not the page's.
      checks.none(`${name}: axe finds nothing`, await axe(page, { exclude: ["iframe"] }));
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      checks.same(`${name}: the page fits`, wider <= 0, true);
      // The buttons were brought into view.
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: join(pictures, `${width}-${colorScheme}-${button}.png`) });
    }
  }
  const [frame] = await frames(page, "dark");
  const popup = context.waitForEvent("page");
  await frame.locator("a").first().click();
  const opened = await popup;
  checks.same("a link in a mail opens a tab", opened.url().startsWith(site.address), true);
  await opened.close();
  await page.getByRole("button", { name: "Text", exact: true }).click();
  checks.same("its text is shown", (await page.textContent("#plain"))?.includes(link), true);
  await page.getByRole("button", { name: "Source" }).click();
  await page.locator("#plain", { hasText: "MIME-Version: 1.0" }).waitFor();
  await page.getByRole("button", { name: "Empty the inbox" }).click();
  await page.getByText("Waiting for the first mail.").waitFor();
  checks.none("the page complains of nothing", complaints);
  await page.close();
  return checks.results;
}

const color = () => getComputedStyle(document.body).backgroundColor;

/** The frames of both widths, once they show the mail so. */
async function frames(page, scheme) {
  const found = [];
  for (const handle of await page.locator(`iframe[src$="?${scheme}"]`).elementHandles()) {
    const frame = await handle.contentFrame();
    await frame.waitForURL((url) => url.search === `?${scheme}`);
    found.push(frame);
  }
  if (found.length !== 2) throw new Error(`${found.length} frames`);
  return found;
}
