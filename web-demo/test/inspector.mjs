// The inspector: what it draws, and what fails when a character changes.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { tokenOf } from "./visitor.mjs";

export async function inspecting({ visitor }) {
  const checks = new Checks();
  const walk = await visitor.register("inspected");
  const link = await visitor.link(walk, "activate");
  const token = tokenOf(link);
  const page = await visitor.open("/inspector");
  const verdict = () => page.textContent("#verdict");
  const state = (check) => page.getAttribute(`[data-check="${check}"]`, "data-state");

  await page.waitForSelector("#verdict.verdict-good");
  checks.same("it begins with the newest mail", await page.inputValue("#token"), token);
  checks.same("which is genuine and valid", await verdict(), "Genuine and valid");
  checks.same("every byte is drawn", await page.locator("#bytes .byte").count(), 110);
  checks.same("every field has a label", await page.locator("#legend li").count(), 6);
  checks.same(
    "the time it took stands beside it",
    await page.textContent("#time"),
    /in (less than 1|[\d,]+) µs/,
  );
  const before = await page.textContent("#expiry");
  await page.waitForFunction(
    (text) => document.querySelector("#expiry").textContent !== text,
    before,
  );
  checks.same("the expiry counts down", await page.textContent("#expiry"), /^in 1[0-4]:\d\d, at /);

  await page.selectOption("#action", "recover");
  checks.same("used for something else, the action fails", await state("action"), "failed");
  await page.selectOption("#action", "activate");

  // Every character, one after the other, as if it was typed:
  // nothing in a token is without meaning.
  const faults = await page.evaluate((genuine) => {
    const input = document.querySelector("#token");
    const found = [];
    for (let at = 0; at < genuine.length; at += 1) {
      // Both end in two zero bits, as the last character has to.
      const other = genuine[at] === "A" ? "E" : "A";
      input.value = genuine.slice(0, at) + other + genuine.slice(at + 1);
      input.dispatchEvent(new InputEvent("input", { inputType: "insertText" }));
      const failed = document.querySelectorAll('#checks [data-state="failed"]').length;
      const verdict = document.querySelector("#verdict").textContent;
      if (failed !== 1 || !verdict.startsWith("Refused: ERR_"))
        found.push(`character ${at}: ${verdict}, ${failed} failed`);
    }
    return found;
  }, token);
  checks.same("a token has as many characters as were changed", token.length, 147);
  checks.none("whichever character is changed, a check fails", faults);
  checks.same("a changed byte is marked", (await page.locator(".byte-changed").count()) > 0, true);
  await page.click("#undo");
  checks.same("undone, it is good again", await verdict(), "Genuine and valid");
  await page.fill("#token", `http://localhost${link}&utm=1`);
  checks.same("of a pasted link the token is taken", await page.inputValue("#token"), token);
  await page.fill("#token", token.slice(0, -1));
  checks.same("a cut token has no shape", await verdict(), "Refused: ERR_TOKEN_MALFORMED");
  await page.fill("#token", "<img src=x onerror=alert(1)>");
  checks.same("what is no token at all", await state("shape"), "failed");
  await page.selectOption("#picked", { index: (await page.locator("#picked option").count()) - 1 });
  checks.same(
    "a v1 token is not judged in the page",
    await verdict(),
    "Well-formed; this page cannot say more",
  );
  await page.waitForSelector('[data-check="edge"]');
  checks.same("but by the edge, whose key it is not", await state("edge"), "failed");
  await page.close();
  await walk.close();
  return checks.results;
}
