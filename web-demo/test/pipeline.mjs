// The pipeline: a thousand registrations, ten thousand bad links, a killed collector,
// a new key under load.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { PATIENCE, until } from "../../verifier-wasm/npm/test/waiting.mjs";
import { seeing } from "./seeing.mjs";
import { tokenOf } from "./visitor.mjs";

/** A thousand registrations and ten thousand links, on a machine that does much else. */
const LONG = 5 * PATIENCE;

/** How often something is begun anew in whose middle nothing was done: the browser stood still. */
const ROUNDS = 4;

export async function pipeline({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.open("/pipeline");
  const count = (id) =>
    until(`the count ${id}`, async () => {
      const text = await page.textContent(`[data-count="${id}"]`);
      // A part that is late has none for a moment.
      return text !== "?" && Number(text.replaceAll(",", ""));
    });
  // Other groups have counted, too, and have had the inbox begin anew.
  const mails = async () =>
    (
      await demo.query(
        "SELECT count(*)::int AS count FROM mailroom.delivery_attempts WHERE outcome = 'sent'",
      )
    )[0].count;
  const people = async () =>
    (await demo.query("SELECT count(*)::int AS count FROM accounts"))[0].count;
  await page.waitForSelector('[data-count="registered"]');
  await counted(page);
  const before = {
    registered: await people(),
    sent: await mails(),
    received: await count("received"),
    waiting: await count("waiting"),
  };
  const caughtUp = () =>
    until(
      "a mail to everybody who was registered",
      async () => {
        const registered = (await people()) - before.registered;
        const isEmpty =
          (await count("waiting")) <= before.waiting && (await count("claimed")) === 0;
        return isEmpty && (await count("received")) - before.received >= registered;
      },
      LONG,
    );
  const [, key] = /\((\d+) of/.exec(await page.textContent("#rotate"));
  const named = (steps) => `#rotate:has-text("(${Number(key) + steps} of 8)")`;

  // The collector is killed in the middle of it.
  await begin(page, "registrations");
  await page.click("#collector");
  await page.waitForSelector('#collector:has-text("Start"):not([aria-disabled])');
  checks.same(
    "the strip says that it was stopped",
    await page.textContent(".part-stopped"),
    "collector was stopped",
  );
  await done(page, "registrations");
  let thousands = 1;
  for (; (await count("waiting")) <= before.waiting && thousands < ROUNDS; thousands += 1) {
    await begin(page, "registrations");
    await done(page, "registrations");
  }
  checks.same(
    "every registration was accepted",
    await page.textContent("#progress-registrations"),
    /1,000 accepted/,
  );
  checks.same(
    "the database has a thousand more",
    (await people()) - before.registered,
    thousands * 1_000,
  );
  checks.same("tokens wait meanwhile", (await count("waiting")) > before.waiting, true);
  // A new key before it works again: what waits is signed with that one.
  await page.click("#rotate");
  await page.waitForSelector(named(1));
  await page.click("#collector");
  await caughtUp();
  checks.same("and all are sent once it is back", (await mails()) - before.sent >= 1_000, true);

  // Rotated while registrations come in: links of the old key and of the new one work.
  const walk = await visitor.register("before-the-new-key");
  await page.bringToFront();
  await begin(page, "registrations");
  await page.click("#rotate");
  await page.waitForSelector(named(2));
  await done(page, "registrations");
  await caughtUp();
  const old = await visitor.follow(walk, "activate");
  checks.same("a link of the old key works", await visitor.press(old), "Your account is active");
  const after = await visitor.register("after-the-new-key");
  const fresh = await visitor.follow(after, "activate");
  checks.same("a link of the new key works", await visitor.press(fresh), "Your account is active");
  const ids = [await visitor.link(walk, "activate"), await visitor.link(after, "activate")].map(
    keyIdOf,
  );
  checks.same("they name different keys", ids[0] !== ids[1], true);

  // The flood; a person presses in the middle of it.
  let isMeanwhile = false;
  for (let time = 1; !isMeanwhile && time <= ROUNDS; time += 1) {
    const person = await visitor.register(`in-the-flood-${time}`);
    const link = await visitor.follow(person, "activate");
    await page.bringToFront();
    await counted(page);
    const refused = await count("refused");
    await begin(page, "flood");
    await until("the first refusals", async () => (await count("refused")) - refused > 100);
    await counted(page);
    const calls = await count("calls");
    checks.same("a legitimate link passes", await visitor.press(link), "Your account is active");
    await page.bringToFront();
    isMeanwhile = (await page.getAttribute("#progress-flood", "data-running")) === "true";
    await done(page, "flood");
    const further = (await count("calls")) - calls - 1;
    checks.same("calls of the flood that reached the origin", further, 0);
    const text = await page.textContent("#progress-flood");
    checks.same("all of it was refused", text, /10,000 of 10,000/);
    checks.same(
      "nothing was let through or unanswered",
      /let through|without an answer/.test(text),
      false,
    );
    for (const opened of [person, link]) await opened.close();
  }
  checks.same("while the flood goes on", isMeanwhile, true);
  let missing = [
    "ERR_TOKEN_EXPIRED",
    "ERR_TOKEN_MALFORMED",
    "ERR_TOKEN_SIGNATURE",
    "ERR_TOKEN_USED",
  ];
  const isComplete = async () => {
    const reasons = await page
      .locator("#refused [data-reason]")
      .evaluateAll((rows) => rows.map((row) => row.dataset.reason));
    missing = missing.filter((reason) => !reasons.includes(reason));
    return missing.length === 0;
  };
  // An edge that is late tells none for a moment.
  await until("each reason", isComplete).catch(() => undefined);
  checks.none("each reason is shown", missing);
  for (const opened of [page, walk, old, after, fresh]) await opened.close();
  return checks.results;
}

/** Presses a button, and waits until its traffic was seen to run. */
async function begin(page, id) {
  const runs = await seeing(page, `#progress-${id}[data-running="true"]`);
  await page.click(`#${id}`);
  await runs();
}

async function done(page, id) {
  await page.waitForSelector(`#progress-${id}[data-running="false"]`, { timeout: LONG });
  await counted(page);
}

/** Waits until every counter was read after this call. */
async function counted(page) {
  await page.waitForFunction(
    (now) => Number(document.querySelector("#outward").dataset.at) > now,
    Date.now(),
  );
}

function keyIdOf(link) {
  return Buffer.from(tokenOf(link), "base64url").subarray(2, 6).toString("hex");
}
