// What somebody chooses, presses or types stays on the page until it is answered, whatever comes in
// between. Requests and events are held back here, so that they come in the order in which a slow
// machine may have them.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { until } from "../../verifier-wasm/npm/test/waiting.mjs";

/**
 * Runs in the page: keeps what was heard, and while there is a list `late`, does not pass it on.
 */
function holdable() {
  const Real = globalThis.EventSource;
  globalThis.heard = [];
  globalThis.EventSource = class extends Real {
    addEventListener(name, listener) {
      super.addEventListener(name, (event) => {
        globalThis.heard.push(`${name} ${event.data}`);
        if (globalThis.late === undefined) listener(event);
        else globalThis.late.push(() => listener(event));
      });
    }
  };
}

const hold = (page) => page.evaluate(() => (globalThis.late = []));

/** Passes on what was held, one after the other, and returns what the page shows after each. */
const pass = (page, selector) =>
  page.evaluate((selector) => {
    const late = globalThis.late;
    globalThis.late = undefined;
    return late.map((deliver) => {
      deliver();
      const shown = document.querySelector(selector);
      return shown instanceof HTMLInputElement ? shown.value : shown.textContent;
    });
  }, selector);

/** Waits until the newest settings that were heard are such: an event of before may be, too. */
const heard = (page, part) =>
  page.waitForFunction(
    (part) => globalThis.heard.findLast((event) => event.startsWith("settings"))?.includes(part),
    part,
  );

/** Requests of a page that wait until they are told how to go on. */
class Held {
  bodies = [];
  #page;
  #pattern;
  #goOn;

  static async on(page, pattern) {
    const held = new Held();
    held.#page = page;
    held.#pattern = pattern;
    const gate = new Promise((resolve) => (held.#goOn = resolve));
    await page.route(pattern, async (route) => {
      held.bodies.push(route.request().postData());
      await (await gate)(route);
    });
    return held;
  }

  async arrived() {
    await until("a request to hold back", () => this.bodies.length > 0);
  }

  /** Lets them through, and all that come after. */
  pass() {
    this.#goOn((route) => route.continue());
  }

  /** Answers each, and those that come after, by a refusal. */
  refuse() {
    this.#goOn((route) => route.fulfill({ status: 503, json: { message: "Not now." } }));
  }

  /** Has the connection break. */
  cut() {
    this.#goOn((route) => route.abort("connectionrefused"));
  }

  /** Holds nothing any more. */
  async end() {
    await this.#page.unroute(this.#pattern);
  }
}

/** A change by somebody else. */
const elsewhere = async (demo, name, body) => (await demo.change(name, body)).settings;

export async function answeredLate({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.open("/", (page) => page.addInitScript(holdable));
  const radio = (name, value) => `input[name="${name}"][value="${value}"]`;
  const chosen = 'input[name="format"]:checked';
  const format = () => page.inputValue(chosen);
  const noted = (text) =>
    page.waitForFunction(
      (text) => document.querySelector("#settings-note").textContent.includes(text),
      text,
    );
  await page.waitForSelector(chosen);

  // An event of before, while the request is under way; then a second choice.
  const both = await Held.on(page, "**/demo/format");
  await page.check(radio("format", "v2"));
  await both.arrived();
  await elsewhere(demo, "lifetime", { seconds: 60 });
  await page.waitForSelector(`${radio("lifetime", 60)}:checked`);
  checks.same("what was chosen stays when an event has the old format", await format(), "v2");
  checks.same("the table marks it, too", await page.textContent("#abilities thead .chosen"), "v2");
  await page.check(radio("format", "v1"));
  checks.same("a second choice is shown at once", await format(), "v1");
  both.pass();
  await noted("signed as v1");
  checks.same(
    "and asked for after the first",
    both.bodies.join(),
    '{"format":"v2"},{"format":"v1"}',
  );
  checks.same(
    "so that it is what is set",
    (await elsewhere(demo, "lifetime", { seconds: 900 })).format,
    "v1",
  );
  checks.same("and shown", await format(), "v1");
  await both.end();

  // A failure, with and without an answer. Somebody else has chosen meanwhile.
  for (const [end, said, other] of [
    ["refuse", "Not now.", "v2"],
    ["cut", "does not answer", "v1"],
  ]) {
    const failing = await Held.on(page, "**/demo/format");
    await page.check(radio("format", "v3"));
    await failing.arrived();
    await elsewhere(demo, "format", { format: other });
    await heard(page, `"format":"${other}"`);
    checks.same(`before a request fails (${end}) its choice stays`, await format(), "v3");
    failing[end]();
    await noted(said);
    checks.same(`when it has failed (${end}), the page shows what is so`, await format(), other);
    await failing.end();
  }

  // An event of before that comes after the answer.
  await hold(page);
  await elsewhere(demo, "lifetime", { seconds: 60 });
  await heard(page, '"lifetime":60');
  await page.check(radio("format", "v3"));
  await noted("signed as v3");
  const shown = await pass(page, chosen);
  checks.same("events of before were held", shown.length > 0, true);
  checks.same("none of them turns back what was answered", [...new Set(shown)].join(), "v3");

  // The other switch is of the same kind.
  const lifetime = await Held.on(page, "**/demo/lifetime");
  await page.check(radio("lifetime", 900));
  await lifetime.arrived();
  await elsewhere(demo, "format", { format: "v2" });
  await page.waitForSelector(`${radio("format", "v2")}:checked`);
  checks.same(
    "a lifetime stays, too",
    await page.inputValue('input[name="lifetime"]:checked'),
    "900",
  );
  lifetime.pass();
  await noted("live 900 seconds");
  await page.close();
  return checks.results;
}

export async function buttonsAnsweredLate({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.open("/pipeline", (page) => page.addInitScript(holdable));
  const label = (button) => page.textContent(`#${button}`);
  // As a hand does; the driver would wait until the button takes presses again.
  const again = (button) => page.dispatchEvent(`#${button}`, "click");
  const ready = (button) => page.waitForSelector(`#${button}:not([aria-disabled])`);
  await page.waitForSelector('.part-up:has-text("collector")');

  const killing = await Held.on(page, "**/demo/collector");
  await page.click("#collector");
  await killing.arrived();
  checks.same(
    "a button shows what it was pressed for",
    await label("collector"),
    "Start the collector",
  );
  // A change of the format restarts the collector, which events tell.
  await elsewhere(demo, "format", { format: "v2" });
  await heard(page, '"format":"v2"');
  checks.same(
    "also when events say that the collector runs",
    await label("collector"),
    "Start the collector",
  );
  await again("collector");
  killing.pass();
  await ready("collector");
  checks.same("a second press meanwhile does nothing", killing.bodies.join(), '{"run":false}');
  checks.same("the collector is killed", demo.has(/mailroom collect /), false);
  await killing.end();

  const failing = await Held.on(page, "**/demo/collector");
  await page.click("#collector");
  await failing.arrived();
  checks.same("pressed again it shows that", await label("collector"), "Kill the collector");
  failing.refuse();
  await ready("collector");
  checks.same(
    "and when it has failed, what is so",
    await label("collector"),
    "Start the collector",
  );
  checks.same("with the reason", await label("pipeline-note"), "Not now.");
  await failing.end();

  const [, first] = /\((\d+) of/.exec(await label("rotate"));
  const named = (steps) => `Rotate the key (${Number(first) + steps} of 8)`;
  const rotating = await Held.on(page, "**/demo/rotate");
  await page.click("#rotate");
  await rotating.arrived();
  await again("rotate");
  rotating.pass();
  await ready("rotate");
  checks.same("two presses before the answer rotate once", await label("rotate"), named(1));
  await rotating.end();
  await hold(page);
  await elsewhere(demo, "lifetime", { seconds: 60 });
  await heard(page, '"lifetime":60');
  await page.click("#rotate");
  await ready("rotate");
  const shown = await pass(page, "#rotate");
  checks.same("an event of before turns no key back", [...new Set(shown)].join(), named(2));
  await page.close();
  return checks.results;
}

/**
 * People are told once, and on a new stream after news that are older than what the one
 * before it had told.
 */
export async function oneAfterTheOther({ visitor, demo }) {
  const checks = new Checks();
  await elsewhere(demo, "registrations", { count: 1 });
  const page = await visitor.register("one-after-the-other");
  const account = page.locator("#account dd").first();
  for (let number = 1; number <= 6; number += 1) {
    await page.fill("#email", `next-${number}@example.test`);
    await page.fill("#login", `next-${number}`);
    await page.click("#register button");
    await until(
      `the account of next-${number}`,
      async () => (await account.textContent()) === `next-${number}`,
    );
  }
  checks.same("each of seven accounts is shown", await account.textContent(), "next-6");
  await page.close();
  return checks.results;
}

/** What is typed while something is under way is nobody's to replace. */
export async function typedMeanwhile({ visitor }) {
  const checks = new Checks();
  const page = await visitor.open("/");
  const registering = await Held.on(page, "**/api/register");
  await page.fill("#email", "typed@example.test");
  await page.fill("#login", "typed");
  await page.click("#register button");
  await registering.arrived();
  await page.fill("#login", "next");
  registering.pass();
  await visitor.mail(page, "activate");
  checks.same(
    "a login that is typed during a registration stays",
    await page.inputValue("#login"),
    "next",
  );
  await registering.end();

  const link = await visitor.follow(page, "activate");
  // What a page is told that is complete only after the press; then, what one is told to which a
  // browser goes back.
  const taken = await link.evaluate(() => {
    const form = document.querySelector("#redeem");
    const button = form.querySelector("button");
    form.addEventListener("submit", (event) => event.preventDefault(), { once: true });
    button.click();
    return [false, true].map((persisted) => {
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted }));
      return button.disabled;
    });
  });
  checks.same(
    "a link's button takes no second press, unless the browser went back",
    taken.join(),
    "true,false",
  );
  checks.same("the next press is answered", await visitor.press(link), "Your account is active");

  let listing;
  const inspector = await visitor.open("/inspector", async (opened) => {
    listing = await Held.on(opened, "**/demo/mails");
  });
  await listing.arrived();
  await inspector.fill("#token", "pasted");
  listing.pass();
  await inspector.waitForSelector("#picked option:nth-child(2)", { state: "attached" });
  checks.same(
    "a token that is pasted while mails are listed stays",
    await inspector.inputValue("#token"),
    "pasted",
  );
  checks.same(
    "and is judged",
    await inspector.textContent("#verdict"),
    "Refused: ERR_TOKEN_MALFORMED",
  );
  for (const opened of [page, link, inspector]) await opened.close();
  return checks.results;
}
