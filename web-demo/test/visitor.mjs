// Somebody at a browser, watched: what the pages complain of, what they ask for,
// and where tokens appear.

import { following } from "../../verifier-wasm/npm/test/browser/chromium.mjs";
import { until } from "../../verifier-wasm/npm/test/waiting.mjs";

export class Visitor {
  #context;
  #demo;
  #base;
  /** Everything that no page may do. */
  complaints = [];
  /** Every token that a mail carried. */
  tokens = new Set();
  /** What has been asked for and not yet answered to its end, and since when. */
  #unanswered = new Map();

  /** @param {import("playwright-core").BrowserContext} context */
  constructor(context, demo) {
    this.#context = context;
    this.#demo = demo;
    this.#base = demo.address;
    context.on("page", (page) => this.#watch(page));
    context.on("request", (request) => this.#watchRequest(request));
    for (const end of ["requestfinished", "requestfailed"]) {
      context.on(end, (request) => this.#unanswered.delete(request));
    }
  }

  #watch(page) {
    page.on("pageerror", (error) => this.complaints.push(`${page.url()}: ${error.stack ?? error}`));
    page.on("console", (message) => {
      // Refusals are answered with their own status,
      // which Chromium reports as an error of the page.
      const isRefusal =
        /^Failed to load resource: the server responded with a status of (4\d\d|503)/.test(
          message.text(),
        );
      const isAway =
        /net::ERR_(CONNECTION_RE(FUSED|SET)|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)/.test(
          message.text(),
        );
      if (["error", "warning"].includes(message.type()) && !isRefusal && !(this.outage && isAway)) {
        this.complaints.push(`${page.url()}: ${message.text()}`);
      }
    });
  }

  #watchRequest(request) {
    const url = request.url();
    if (/^http/.test(url)) this.#unanswered.set(request, performance.now());
    // The inbox is a page of its own, to which one link leads.
    const isKnown = [this.#base, this.#demo.inbox].some((base) => url.startsWith(`${base}/`));
    if (!isKnown && !/^(data|blob):/.test(url)) this.complaints.push(`asked for ${url}`);
    const referrer = request.headers().referer ?? "";
    if (referrer.includes("token"))
      this.complaints.push(`a referrer carries a token: ${request.method()} ${url}`);
  }

  /** Every page that is open. */
  get pages() {
    return this.#context.pages();
  }

  /** @param prepare gets the page before it loads anything */
  async open(path, prepare = async () => {}) {
    const page = await this.#context.newPage();
    await prepare(page);
    await this.#telling(page.goto(`${this.#base}${path}`));
    return page;
  }

  /** Where a page does not come, says what was waited for. */
  async #telling(coming) {
    try {
      return await coming;
    } catch (error) {
      const now = performance.now();
      const open = this.#context.pages();
      const lines = [...this.#unanswered]
        .filter(([request]) => open.includes(pageOf(request)))
        .map(
          ([request, since]) =>
            `${request.method()} ${request.url()} for ${((now - since) / 1000).toFixed(1)} s`,
        );
      const waitedFor = `${lines.join(", ") || "nothing"}; ${open.length} pages are open`;
      throw new Error(withoutQueries(`${error.stack ?? error}\nunanswered: ${waitedFor}`));
    }
  }

  async closeAllBut(kept) {
    for (const page of this.#context.pages()) if (!kept.includes(page)) await page.close();
  }

  /**
   * Opens the walk-through and registers somebody. Returns the page, on which the mail has arrived.
   */
  async register(login, email = `${login}@example.test`) {
    const page = await this.open("/");
    await page.fill("#email", email);
    await page.fill("#login", login);
    await page.click("#register button");
    await this.mail(page, "activate");
    return page;
  }

  /**
   * Waits until a page shows a mail of this kind, or one more than so many. Where none comes, says
   * how far it got: the database, the inbox and the page each know.
   */
  async mail(page, action, before = 0) {
    const mails = page.locator(`#mails li[data-action="${action}"]`);
    try {
      await mails.nth(before).waitFor({ state: "attached" });
    } catch (error) {
      throw new Error(`${error.stack ?? error}\n${await this.#whereMailsAre(page)}`);
    }
  }

  async #whereMailsAre(page) {
    const deliveries = await this.#demo.query(
      `SELECT token, state, (
          SELECT string_agg(outcome || coalesce(' (' || reason || ')', ''), ', ')
          FROM mailroom.delivery_log AS log WHERE deliveries.token = ANY (log.tokens)
        ) AS log
      FROM mailroom.deliveries ORDER BY token DESC LIMIT 4`,
    );
    const told = await (await fetch(`${this.#base}/demo/mails`)).json();
    const seen = await page.evaluate(() => ({
      visibility: document.visibilityState,
      email: sessionStorage.getItem("email"),
      mails: [...document.querySelectorAll("#mails li")].map((mail) => mail.dataset.action),
      notes: [...document.querySelectorAll(".note")].map((note) => note.textContent),
    }));
    const inbox = told.map((mail) => `${mail.id} ${mail.action} ${mail.to}`);
    return withoutQueries(
      JSON.stringify({ deliveries, inbox: inbox.slice(-6), page: seen, open: this.pages.length }),
    );
  }

  /** The button in the newest mail of this kind. */
  button(page, action) {
    const mail = page.locator(`#mails li[data-action="${action}"]`).first();
    return mail.frameLocator("iframe").locator("a").first();
  }

  /** The link of the newest mail of this kind, from its path on. */
  async link(page, action) {
    const href = await this.button(page, action).getAttribute("href");
    this.tokens.add(tokenOf(href));
    return href.slice(this.#base.length);
  }

  /** Clicks the newest mail of this kind, and returns the page that opens. */
  async follow(page, action) {
    await this.link(page, action);
    await page.bringToFront();
    const opened = this.#context.waitForEvent("page");
    // Chromium loses a click into a frame of a page that was behind another one until now, if the
    // machine is busy.
    let link;
    while (link === undefined) {
      await this.button(page, action).click();
      link = await Promise.race([opened, page.waitForTimeout(30_000)]);
    }
    await this.#telling(link.waitForSelector("#page-check"));
    this.expectNoToken(link);
    return link;
  }

  /**
   * Presses the button of a link's page, with a code if it wants one,
   * and returns the title of what comes.
   */
  async press(link, code) {
    if (code !== undefined) await link.fill("#code", code);
    await this.#telling(following(link, () => link.click("#redeem button")));
    this.expectNoToken(link);
    return link.textContent("h1");
  }

  /** Asks for a recovery, and returns the code of the mail. */
  async recover(page) {
    const before = await this.#recoveries(page);
    // The application grants one every five seconds at most, and answers all alike. Asked for one
    // more, two mails would come, and whoever reads a code before the second is there would press
    // the second one's link.
    await until("a recovery that the application grants", async () => {
      const answered = page.waitForResponse("**/api/request");
      await page.click('#request button[value="recover"]');
      await answered;
      if ((await this.#recoveries(page)) > before) return true;
      await page.waitForTimeout(500);
      return false;
    });
    await this.mail(page, "recover", before);
    return this.code(page);
  }

  /** How many the database has of the account that a page shows. */
  async #recoveries(page) {
    const login = await page.locator("#account dd").first().textContent();
    const [{ count }] = await this.#demo.query(
      `SELECT count(*)::int AS count FROM tokens JOIN accounts ON accounts.id = account
      WHERE login = $1 AND action = 'password_recovery'`,
      [login],
    );
    return count;
  }

  /** The code in the newest mail of a recovery. */
  code(page) {
    const mail = page.locator('#mails li[data-action="recover"]').first();
    return mail.frameLocator("iframe").locator(".code").textContent();
  }

  expectNoToken(page) {
    if (/token|[\w-]{60}/.test(page.url()))
      this.complaints.push(`a token stays in the address: ${page.url().slice(0, 60)}`);
  }

  async set(page, name, value) {
    await page.waitForSelector(`input[name="${name}"]:checked`);
    const radio = page.locator(`input[name="${name}"][value="${value}"]`);
    if (await radio.isChecked()) return;
    await radio.check();
    await page.waitForFunction(
      (text) => document.querySelector("#settings-note").textContent.includes(text),
      value,
    );
  }
}

/** The token of a link. Something may stand behind one that ends with a sign of its own. */
export function tokenOf(link) {
  return new URL(link, "http://any").searchParams.get("token");
}

/** The page that asked; nothing if that is gone. */
function pageOf(request) {
  try {
    return request.frame().page();
  } catch {
    return undefined;
  }
}

/** What stands behind a question mark may be a token. */
function withoutQueries(text) {
  return text.replace(/\?[^\s"]+/g, "?…");
}
