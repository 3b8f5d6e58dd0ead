// What axe finds wrong with a page for people who see, hear or move otherwise.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** @param {object} [context] what of the page is looked at, as `axe.run` takes it */
export async function axe(page, context) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(
    (context) =>
      globalThis.axe.run(context ?? document, { resultTypes: ["violations"], preload: false }),
    context,
  );
  return violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" ")}`,
  );
}
