// How people see a page: on a narrow screen and a wide one, in light colours and in dark ones.

import { join } from "node:path";

import { FULL } from "../runtimes/scope.mjs";
import { axe } from "./axe.mjs";

/**
 * Widths in CSS pixels, each with a colour scheme. Colours are those of the scheme and sizes those
 * of the width, so each of both once is enough, unless everything is asked for.
 */
export const LOOKS = [
  [360, "dark"],
  [1200, "light"],
  ...(FULL
    ? [
        [360, "light"],
        [1200, "dark"],
      ]
    : []),
];

/**
 * Looks at a page in each way: axe finds nothing, and it fits into the window. Leaves pictures in
 * the folder `pictures`, if there is one. A page that `isTranslated` differs from that of the first
 * language in its words, which no scheme and no width change: axe judges it once.
 */
export async function lookAt(page, checks, name, { pictures, isTranslated = false } = {}) {
  for (const [width, colorScheme] of LOOKS) {
    await page.setViewportSize({ width, height: 740 });
    await page.emulateMedia({ colorScheme });
    const look = `${name}, ${width} px, ${colorScheme}`;
    if (FULL || !isTranslated || width === 360)
      checks.none(`${look}: axe finds nothing`, await axe(page));
    checks.same(`${look}: it fits`, await overflow(page), 0);
    if (pictures !== undefined)
      await page.screenshot({ path: join(pictures, `${name}-${width}-${colorScheme}.png`) });
  }
}

/**
 * By how many CSS pixels a page is wider than its window. By a function of the driver, so that the
 * policy of the page stays as it is.
 */
export const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
