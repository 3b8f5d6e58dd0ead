// What a page shows for a moment: a browser that stood still may have shown it and gone on.

/**
 * Looks from now on whether an element of a page has a text, however briefly: a part that dies is
 * started again after a second. Returns what waits for that, and answers true.
 */
export async function seeing(page, selector, text = "") {
  await page.evaluate(
    ([selector, text]) => {
      globalThis.sighting = new Promise((resolve) => {
        const look = () => {
          const found = [...document.querySelectorAll(selector)];
          if (found.some((element) => element.textContent.includes(text))) resolve(true);
        };
        const changes = { attributes: true, characterData: true, childList: true, subtree: true };
        new MutationObserver(look).observe(document.body, changes);
        look();
      });
    },
    [selector, text],
  );
  return async () => (await page.waitForFunction(() => globalThis.sighting)).jsonValue();
}
