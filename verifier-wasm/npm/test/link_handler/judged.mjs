// The applications of the book that render the pages of links themselves, from what `judge` says:
// built for production, run, and driven in Chromium.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { following } from "../browser/chromium.mjs";
import { Checks } from "../checks.mjs";
import { files } from "../readme/document.mjs";
import { until } from "../waiting.mjs";
import { DATABASE, runApplication, withDatabase, writeApplication } from "./applications.mjs";
import { newLink } from "./server.mjs";
import { SITES } from "./sites.mjs";

const PAGE = new URL("../../../../docs/guides/framework-pages.md", import.meta.url);

/** What answers a link in the same application without pages of its own. */
const HANDLER_ITSELF = /\/activate(?:\.js|\/route\.js|\/\+server\.js)$/;

/** The applications by the headings of the page: the files below each, and those for all. */
export function judgedSites(folder, context) {
  const document = readFileSync(fileURLToPath(PAGE), "utf8");
  const [common, ...parts] = document.split(/^### /m);
  return parts.map((part) => {
    const [where] = part.split("\n", 1);
    const shown = files(part);
    if (where === "Next.js") shown["app/recover/page.jsx"] = shown["app/activate/page.jsx"];
    return [where, () => onSite({ where, shown, common: files(common), folder, context })];
  });
}

async function onSite({ where, shown, common, folder, context }) {
  const checks = new Checks();
  const { files: fresh, sources = ".", ...site } = SITES[where]("");
  const project = Object.entries(fresh).filter(([name]) => !HANDLER_ITSELF.test(name));
  const besides = Object.entries({ ...common, "database.js": DATABASE });
  const place = join(folder, `judged-${where.toLowerCase().replaceAll(/\W+/g, "-")}`);
  writeApplication(place, {
    ...Object.fromEntries(project),
    ...Object.fromEntries(besides.map(([name, text]) => [join(sources, name), text])),
    ...shown,
  });
  await withDatabase((database, used) =>
    runApplication(place, site, database, async (address) => {
      await asked(checks, address, used);
      await driven(checks, context, address, used);
    }),
  );
  return checks.results;
}

/** Statuses and headers, and that opening uses nothing. */
async function asked(checks, address, used) {
  const { token } = newLink("activate");
  const open = (query, more) => fetch(`${address}/activate?${query}`, more);
  const first = await open(`token=${token}`, { redirect: "manual" });
  const { headers } = first;
  const there = headers.get("Location") ?? "";
  checks.same("an opened link is redirected", `${first.status} ${there}`, /^303 \S*\?open=\w{32}$/);
  const cookie = headers.get("Set-Cookie") ?? "";
  checks.same("the token goes into a cookie", cookie.includes(`=${token}; Max-Age=60`), true);
  checks.same("which scripts cannot read", cookie, /; HttpOnly; SameSite=Lax/);
  const kept = { headers: { Cookie: cookie.split(";")[0] } };
  const page = await fetch(new URL(there, `${address}/activate`), kept);
  checks.same("then the page is there", page.status, 200);
  for (const [name, expected] of [
    ["Cache-Control", /no-store/],
    ["Content-Type", /^text\/html/],
    ["Referrer-Policy", /^strict-origin$/],
    ["X-Robots-Tag", /^noindex$/],
  ])
    checks.same(`with ${name}`, page.headers.get(name), expected);
  const policy = page.headers.get("Content-Security-Policy") ?? "";
  for (const directive of [
    /^default-src 'none'/,
    /script-src [^;]*'nonce-/,
    /frame-ancestors 'none'/,
  ])
    checks.same("with the policy", policy, directive);
  checks.same("with one policy alone", policy.includes(","), false);
  checks.same("with scripts of its nonce", (await page.text()).includes(nonceOf(policy)), true);
  const again = await open(`token=${token}`, { method: "HEAD", redirect: "manual" });
  checks.same("HEAD is as GET", again.status, 303);
  const press = (origin, type, body) =>
    open("", { method: "POST", headers: { Origin: origin, "Content-Type": type }, body });
  const form = "application/x-www-form-urlencoded";
  const foreign = await press("https://evil.example", form, `token=${token}`);
  checks.same("a form of another site is refused", foreign.status, /^40[03]$/);
  const json = await press(address, "application/json", JSON.stringify({ token }));
  checks.same("another type is refused", json.status, 415);
  const expired = await open(`token=${newLink("activate", -10).token}`);
  checks.same("a link that has expired has its status", expired.status, 410);
  checks.same("nothing was used", used.length, 0);
}

const nonceOf = (policy) => /'nonce-([^']+)'/.exec(policy)?.[1] ?? "no nonce";

/**
 * In a page: whether its script hears of the form, and shows a busy button. An event that a script
 * makes sends no form.
 */
async function isHeard() {
  document.querySelector("form").dispatchEvent(new Event("submit", { bubbles: true }));
  await new Promise(requestAnimationFrame);
  return document.querySelector("button").ariaBusy === "true";
}

/** A person: activates once, and recovers with a code. */
async function driven(checks, context, address, used) {
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // That an answer is a refusal Chromium says in its console, too.
    if (message.type() === "error" && !/responded with a status/.test(message.text()))
      complaints.push(message.text());
  });
  const heading = () => page.textContent("h1");
  const press = () => following(page, () => page.click("button"));
  const { token, secret } = newLink("activate");
  await page.goto(`${address}/activate?token=${token}`, { waitUntil: "networkidle" });
  checks.same("the token has left the address", page.url(), /\/activate\?open=\w{32}$/);
  checks.same("a link is shown", await heading(), "Activate your account");
  const hears = "the framework's script hears of the form";
  checks.same(hears, await until(hears, () => page.evaluate(isHeard)).catch(String), true);
  await press();
  checks.same("the button activates", await heading(), "Your account is active");
  checks.same("the link of the mail", used.join(), secret);
  checks.same("the address of the answer is clean", new URL(page.url()).search, "");
  const cookies = (await context.cookies()).filter(({ name }) => name.startsWith("mailroom-link"));
  checks.same("no cookie is left", cookies.length, 0);
  const statusOf = async (act) => {
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.request().isNavigationRequest()),
      act(),
    ]);
    return answer.status();
  };
  await page.goto(`${address}/activate?token=${token}`);
  checks.same("a second time has its status", await statusOf(press), 409);
  checks.same("and its page", await heading(), "This link was already used");
  const recovery = newLink("recover");
  await page.goto(`${address}/recover?token=${recovery.token}`);
  await page.fill("#code", "00000");
  checks.same("a wrong code has its status", await statusOf(press), 422);
  checks.same("and is told", await heading(), "That is not the code");
  await page.fill("#code", recovery.code);
  await press();
  checks.same("the right code recovers", await heading(), "Your account is recovered");
  checks.same("the database was asked once for each", used.length, 2);
  checks.none("the pages complain of nothing, such as a policy", complaints);
  await page.close();
}
