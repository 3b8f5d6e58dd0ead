// Mails in the walk-through: shown as they are, and unable to do anything but open links.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { mail, sendMail } from "./smtp.mjs";

/** What tries to get out of its frame, or to be noticed at another site. */
const hostile = (
  elsewhere,
) => `<!doctype html><html><head><meta http-equiv="refresh" content="0;url=${elsewhere}/refresh">
<link rel="stylesheet" href="${elsewhere}/style.css">
<script>top.document.title = "executed"</script></head>
<body onload="parent.document.title = 'executed'"><h1>From a stranger</h1>
<img src="${elsewhere}/pixel.png" onerror="top.document.title = 'executed'">
<iframe src="${elsewhere}/frame"></iframe>
<a id="script" href="javascript:top.document.title='executed'">script</a>
<form action="/demo/rotate" method="post"><button id="form">send</button></form></body></html>`;

export async function mailsAsTheyAre({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("reader");
  const shown = page.locator("#mails li").first();
  const text = (await shown.textContent()).replace(/\s+/g, " ");
  checks.same(
    "a mail has its subject and its sender",
    text,
    /Activate your Mailroom accountfrom Mailroom$/,
  );
  const body = shown.frameLocator("iframe").locator("body");
  checks.same(
    "its text is there",
    await body.textContent(),
    /press the button on the page to activate the account/,
  );
  const button = await visitor
    .button(page, "activate")
    .evaluate((link) => getComputedStyle(link).backgroundColor);
  checks.same("with its own styles", button, "rgb(11, 87, 208)");
  checks.same(
    "and a link to this site",
    await visitor.button(page, "activate").getAttribute("href"),
    linkOf(demo),
  );

  const opening = page.context().waitForEvent("page");
  await page.click("#all-mails a");
  const inbox = await opening;
  await inbox.click("#mails button:has-text('reader@example.test')");
  checks.same(
    "the inbox of mailroom dev has the mail, too",
    await inbox.textContent("#subject"),
    "Activate your Mailroom account",
  );
  checks.same("with its link", await inbox.getAttribute("#link", "href"), linkOf(demo));
  checks.same("and offers nothing that it cannot do", await inbox.isVisible("#again"), false);
  await inbox.close();

  const asked = [];
  const elsewhere = createServer((request, response) => {
    asked.push(request.url);
    response.end();
  }).listen(0, "127.0.0.1");
  await once(elsewhere, "listening");
  const html = hostile(`http://127.0.0.1:${elsewhere.address().port}`);
  const before = visitor.complaints.length;
  const port = Number(
    /^port = (\d+)$/m.exec(readFileSync(join(demo.folders.private, "send.toml"), "utf8"))[1],
  );
  const subject = "<img src=x onerror=\"document.title='executed'\">";
  const code = await sendMail(port, mail({ subject, html }), "reader@example.test");
  checks.same("a stranger's mail is received", code, "250");
  const frame = shown.frameLocator("iframe");
  await frame.locator("h1:has-text('From a stranger')").waitFor();
  checks.same("its subject is text", await shown.locator(".subject").textContent(), subject);
  const pages = page.context().pages().length;
  await page.bringToFront();
  for (const id of ["script", "form"]) await frame.locator(`#${id}`).click();
  await page.waitForTimeout(1_000);
  checks.same("nothing in it is executed", await page.title(), "Walk-through · Mailroom");
  checks.same(
    "it is still the mail that is shown",
    await frame.locator("h1").textContent(),
    "From a stranger",
  );
  const blank = page.context().pages().slice(pages);
  checks.none(
    "it opens nothing",
    blank.map((opened) => opened.url()).filter((url) => url !== "about:blank"),
  );
  for (const opened of blank) await opened.close();
  checks.none("and nobody is asked for anything", asked);
  // Chromium complains of everything that it has refused.
  checks.same("because it was refused", visitor.complaints.splice(before).length > 0, true);
  elsewhere.close();
  await page.close();
  return checks.results;
}

function linkOf(demo) {
  return new RegExp(`^${demo.address}/activate\\?token=[\\w-]{147}$`);
}
