// What the form of a page lets through, and that it can be sent again when sending it has come to
// nothing.

import { PATIENCE, until } from "../waiting.mjs";
import { onSite } from "./browser.mjs";
import { newLink } from "./server.mjs";

/** The field for a code takes what the handler takes. */
export function typedCodes(context, site) {
  return onSite(context, { site }, async ({ checks, page, open }) => {
    const { token, code } = newLink("recover");
    await open(token, "recover");
    const isTaken = site.handlerEntry.createLinkHandler({
      verifier: site.verifier,
      store: site.entry.createMemoryStore({ capacity: 100_000 }),
      redeem: () => "ok",
      onError() {},
    });
    // What could be a digit or stand around one, also in another spelling; and some others.
    const likely = /[\p{Nd}\s\p{Z}\p{Cc}\p{P}\p{Cf}]/u;
    // Of these there are ten thousand.
    const many = /[\p{S}\p{M}]/u;
    const signs = Array.from({ length: 0xe1000 }, (_, point) => point).filter((point) => {
      const sign = String.fromCodePoint(point);
      if (likely.test(sign) || likely.test(sign.normalize("NFKC"))) return true;
      return point % 5_000 === 65 || (many.test(sign) && point % 11 === 0);
    });
    // Those that the browser knows, and that it does not take out itself.
    const found = await page.evaluate(
      ([signs, code]) => {
        const field = document.querySelector("#code");
        const passes = (text) => {
          field.value = text;
          return field.checkValidity();
        };
        return signs
          .map((point) => [point, String.fromCodePoint(point)])
          .filter(([, sign]) => !/[\p{Cs}\p{Cn}\p{Co}\n\r]/u.test(sign))
          .map(([point, sign]) => [
            point,
            passes(sign + code.slice(0, 2) + sign + code.slice(2) + sign),
            passes(sign + code.slice(1)),
          ]);
      },
      [signs, code],
    );
    const asked = async (typed) => {
      const { token } = newLink("recover");
      const headers = { Origin: "https://app.example" };
      const body = new URLSearchParams({ token, code: typed });
      const answer = await isTaken(
        new Request("https://app.example/recover", { method: "POST", headers, body }),
      );
      const text = await answer.text();
      // A code that is whole is right or wrong; another one has to be typed anew.
      return !text.includes("Type the whole code");
    };
    const differing = [];
    for (const [point, around, instead] of found) {
      const sign = String.fromCodePoint(point);
      const taken = [
        await asked(sign + code.slice(0, 2) + sign + code.slice(2) + sign),
        await asked(sign + code.slice(1)),
      ];
      if (taken.join() !== `${around},${instead}`)
        differing.push(`U+${point.toString(16)} ${taken}`);
    }
    checks.none("the browser sends what the handler takes, and nothing else", differing);
    checks.same("signs pass", found.filter(([, around]) => around).length > 100, true);
    checks.same("digits pass", found.filter(([, , instead]) => instead).length > 500, true);
  });
}

/** A form whose sending has come to nothing is sent again. */
export async function sentAgain(context, site) {
  const own = `<!doctype html><html lang="en"><title>Own</title><h1>Own</h1>{{form}}
<script nonce="{{nonce}}">
  let isFirst = true;
  SOURCE.addEventListener("submit", (event) => {
    if (isFirst) event.preventDefault();
    isFirst = false;
  });
</script>`;
  let end;
  let calls = 0;
  const options = {
    redeem() {
      calls += 1;
      return calls === 1 ? new Promise((resolve) => (end = () => resolve("away"))) : "ok";
    },
  };
  const results = [];
  for (const source of ["document", "window"]) {
    results.push(
      ...(await onSite(
        context,
        { site, options: { pages: { form: own.replace("SOURCE", source) } } },
        async ({ checks, page, open, heading }) => {
          await open(newLink("activate").token, "activate");
          await page.click("button");
          checks.same(`a listener of the ${source} keeps a form`, await heading(), "Own");
          // At the latest when the page gives up waiting for an answer.
          await page.waitForSelector("button:not([aria-busy])");
          await page.click("button");
          await page.waitForFunction(() => document.title !== "Own", null, { timeout: PATIENCE });
          checks.same("the next press sends it", await heading(), "Your account is active");
        },
      )),
    );
  }
  results.push(
    ...(await onSite(context, { site, options }, async ({ checks, page, open, heading }) => {
      // No time that has gone by lets the button take a press, but that the page was stopped.
      await page.addInitScript(() => {
        const { setTimeout } = globalThis;
        globalThis.setTimeout = (act, after) => (after < 1_000 ? setTimeout(act, after) : 1);
      });
      await open(newLink("activate").token, "activate");
      await page.click("button", { noWaitAfter: true });
      await until("the press", () => end);
      const browser = await context.newCDPSession(page);
      await browser.send("Page.stopLoading");
      checks.same(
        "a press that was stopped shows the form",
        await heading(),
        "Activate your account",
      );
      end();
      await page.waitForSelector("button:not([aria-busy])");
      await page.click("button");
      await page.waitForFunction(() => document.querySelector("button") === null, null, {
        timeout: PATIENCE,
      });
      checks.same("the next press sends it", await heading(), "Your account is active");
    })),
  );
  return results;
}
