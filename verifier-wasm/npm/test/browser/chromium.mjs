// Chromium, driven without a window, for as long as `use` runs.

import { rmSync } from "node:fs";

import { chromium } from "playwright-core";

import { folderInMemory } from "../runtimes/memory.mjs";
import { ANSWER_TIMEOUT } from "../runtimes/scope.mjs";
import { PATIENCE } from "../waiting.mjs";

const FLAGS = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/**
 * @param {string} program
 * @param {(context: import("playwright-core").BrowserContext) => Promise<T>} use
 * @param {import("playwright-core").BrowserContextOptions} [settings] what is to be otherwise than
 * in a new browser
 * @returns {Promise<T>}
 */
export async function withChromium(program, use, settings = {}) {
  // It listens on a pipe that closes when this process ends.
  // In memory, so that pages do not wait for a disk that something else keeps busy.
  const profile = folderInMemory("mailroom-profile-");
  const context = await chromium.launchPersistentContext(profile, {
    ...launching(program),
    ...settings,
  });
  context.setDefaultTimeout(PATIENCE);
  try {
    return await use(context);
  } finally {
    await context.close();
    // A process of it may write there for a moment longer.
    rmSync(profile, { recursive: true, force: true, maxRetries: 30 });
  }
}

/** The same for many browsers that share nothing: contexts of one program. */
export async function withBrowsers(program, use) {
  const browser = await chromium.launch(launching(program));
  try {
    return await use(browser);
  } finally {
    await browser.close();
  }
}

// Chromium refuses to make its own sandbox as root.
function launching(program) {
  return {
    executablePath: program,
    headless: true,
    chromiumSandbox: process.getuid?.() !== 0,
    args: FLAGS,
  };
}

/**
 * Does what brings another page in the place of this one, and waits until that one is loaded. Where
 * this one is not yet, its load would be taken for that of the other.
 */
export async function following(page, act) {
  await page.waitForLoadState();
  await Promise.all([page.waitForEvent("load"), act()]);
}

/**
 * Opens a page and waits for what its program leaves in `globalThis.results`.
 *
 * Whatever the page loads from elsewhere, and every error that nobody caught, makes it fail.
 */
export async function resultsOf(context, url) {
  const page = await context.newPage();
  const complaints = [];
  const origin = new URL(url).origin;
  page.on("pageerror", (error) => complaints.push(String(error.stack ?? error)));
  page.on("console", (message) => {
    if (message.type() === "error") {
      complaints.push(`${message.text()} (${message.location().url})`);
    }
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`) && !/^(data|blob):/.test(request.url())) {
      complaints.push(`the page asked for ${request.url()}`);
    }
  });
  try {
    // The suite runs while the page loads.
    await page.goto(url, { waitUntil: "commit" });
    const done = page.waitForFunction(() => globalThis.results !== undefined, undefined, {
      timeout: ANSWER_TIMEOUT,
    });
    const failed = new Promise((resolve) => page.once("pageerror", resolve));
    await Promise.race([done, failed]);
    const results = await page.evaluate(() => globalThis.results);
    return [...(results ?? []), ...complaints.map((error) => ({ name: "the page", error }))];
  } catch (error) {
    throw new Error([error.message, ...complaints].join("\n"), { cause: error });
  } finally {
    await page.close();
  }
}
