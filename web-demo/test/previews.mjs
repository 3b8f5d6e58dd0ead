// The shipped mails in a browser, and the page on which `mailroom send --preview` shows them:
// narrow and wide, light and dark.

import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { FULL } from "../../verifier-wasm/npm/test/runtimes/scope.mjs";
import { violations } from "./accessibility.mjs";

const CONFIGURATION = `from = "Example <no-reply@example.org>"
product = "Example"
journal = "journal"
[links]
base = "https://example.org"
[smtp]
server = "localhost"
`;

// A mail is shown within the page of a mail client, which has these parts.
const OF_A_WHOLE_PAGE = { "landmark-one-main": { enabled: false }, region: { enabled: false } };
const BACKGROUNDS = { light: "rgb(255, 255, 255)", dark: "rgb(22, 24, 29)" };

const TEMPLATES = fileURLToPath(new URL("../../sender/templates", import.meta.url));
const LANGUAGES = readdirSync(TEMPLATES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const ACTIONS = ["activate", "change_email", "invite", "notice", "recover", "sign_in"];

/**
 * Width and colours: all for one language, which shares its layout with the others. Colours are
 * those of the scheme and sizes those of the width, so that axe needs each of both once, and of
 * another language only the words. The page of all mails holds a hundred of them in frames, which
 * makes a picture of it as expensive as those of all mails: it is for `--full`, as are those of
 * other languages.
 */
function looksOf(name) {
  const isFirst = name.startsWith("en-");
  const look = (width, colorScheme, more) => ({
    width,
    colorScheme,
    isJudged: FULL,
    isPictured: FULL || isFirst,
    ...more,
  });
  const narrow = look(320, "light", { isJudged: true });
  const wide = look(1200, "dark", { isJudged: FULL || isFirst || name === "index.html" });
  return isFirst || FULL ? [narrow, wide, look(320, "dark"), look(1200, "light")] : [narrow, wide];
}

export async function previews(context, { folder, mailroom }) {
  const checks = new Checks();
  const site = join(folder, "previews");
  rmSync(site, { recursive: true, force: true });
  mkdirSync(site, { recursive: true });
  writeFileSync(join(site, "send.toml"), CONFIGURATION);
  execFileSync(mailroom, ["send", "--config", join(site, "send.toml"), "--preview", site]);
  const files = readdirSync(site).filter((name) => name.endsWith(".html"));
  const mails = LANGUAGES.flatMap((tag) => ACTIONS.map((action) => `${tag}-${action}.html`));
  const expected = [...mails, "index.html"].sort();
  checks.same("there is every mail, and the page", files.sort().join(), expected.join());

  const page = await context.newPage();
  const address = String(pathToFileURL(`${site}/`));
  const [asked, complaints] = [[], []];
  page.on("request", (request) => asked.push(request.url()));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  for (const name of files) {
    const isMail = name !== "index.html";
    await page.goto(`${address}${name}`);
    for (const { width, colorScheme, isJudged, isPictured } of looksOf(name)) {
      const look = `${name}, ${width} px, ${colorScheme}`;
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      if (isPictured) {
        const path = join(site, `${name}-${width}-${colorScheme}.png`);
        await page.screenshot({ path, fullPage: true });
      }
      if (isJudged) {
        checks.none(
          `${look}: axe finds nothing`,
          await violations(page, isMail ? OF_A_WHOLE_PAGE : {}),
        );
      }
      checks.none(`${look}: nothing is wider than the window`, await page.evaluate(wider));
      const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      if (isMail) checks.same(`${look}: its own background`, background, BACKGROUNDS[colorScheme]);
    }
  }
  checks.same(
    "the page shows every mail at two widths",
    asked.filter((url) => /\/[a-z]{2}-\w+\.html$/.test(url)).length,
    mails.length * 3,
  );
  checks.none(
    "nothing is asked for elsewhere",
    asked.filter((url) => !url.startsWith(address)),
  );
  checks.none("the pages complain of nothing", complaints);
  await page.close();
  return checks.results;
}

/** The elements that reach beyond the window. */
function wider() {
  const width = document.documentElement.clientWidth;
  const elements = [document.documentElement, ...document.querySelectorAll("*")];
  const reaching = elements.filter(
    (element) => element.getBoundingClientRect().right > width + 0.5 || element.scrollWidth > width,
  );
  return reaching.map((element) => element.outerHTML.slice(0, 100));
}
