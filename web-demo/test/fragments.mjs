// A link of a mail with its token behind `#`, and what everybody gets to read who might keep it:
// the log of each part, every request, and a script for statistics. A control shows that what is
// searched has the token where a link has it in its query.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { tokenOf } from "./visitor.mjs";

/** What a script for statistics can tell of the page that it is in. It runs in the page. */
function told() {
  const { href, search, hash } = location;
  const visited = globalThis.navigation?.entries().map(({ url }) => url) ?? [];
  const loaded = performance.getEntries().map(({ name }) => name);
  const page = [document.URL, document.referrer, document.title, document.cookie, history.state];
  return JSON.stringify([
    href,
    search,
    hash,
    ...page,
    ...visited,
    ...loaded,
    { ...localStorage, ...sessionStorage },
  ]);
}

/** Those texts that have a part of the token that tells it from others. */
const having = (texts, token) =>
  texts.filter((text) => text.includes(token.slice(20, 60)) || text.includes(token.slice(-40)));

export async function fragments({ visitor, demo }) {
  const checks = new Checks();
  const page = await visitor.register("fragments");
  const mailed = await visitor.link(page, "activate");
  const [path, token] = [mailed.split("?")[0], tokenOf(mailed)];
  // A page of its own: what it had before it would be found in its history.
  const follow = async (link) => {
    const opened = await visitor.open("/");
    const requests = [];
    const statistics = [];
    opened.on("request", (request) => {
      // Browsers send no fragment; here it is part of what a request is for.
      const [address] = request.url().split("#");
      requests.push(
        address,
        request.allHeaders().then(JSON.stringify, () => JSON.stringify(request.headers())),
      );
    });
    const look = async () => statistics.push(await opened.evaluate(told));
    await opened.goto(`${demo.address}${link}`);
    await opened.waitForSelector("#page-check");
    await look();
    return { opened, asked: () => Promise.all(requests), statistics, look };
  };

  const { opened, asked, statistics, look } = await follow(`${path}#${token}`);
  checks.same("its page is shown", await opened.textContent("h1"), "Activate your account");
  checks.same("nothing is in the address", opened.url(), `${demo.address}${path}`);
  checks.same("opening it changes nothing", await page.textContent("#status"), "provisioned");
  checks.same("its button activates", await visitor.press(opened), "Your account is active");
  await look();
  const requests = await asked();
  checks.same("requests were seen", requests.length > 10, true);
  checks.none("no address and no header of a request has the token", having(requests, token));
  checks.none("a script for statistics finds no token", having(statistics, token));
  const logs = { ...demo.logs(), terminal: demo.output };
  checks.none(
    "no log has it",
    Object.keys(logs).filter((name) => having([logs[name]], token).length > 0),
  );

  const other = await visitor.register("fragments-control");
  const link = await visitor.link(other, "activate");
  const control = tokenOf(link);
  const query = await follow(link);
  checks.same(
    "of a link with a query, requests have it",
    having(await query.asked(), control).length > 0,
    true,
  );
  checks.same(
    "and a script for statistics finds it",
    having(query.statistics, control).length > 0,
    true,
  );
  for (const name of ["", "x", token.slice(0, -1)]) {
    await query.opened.goto("about:blank");
    await query.opened.goto(`${demo.address}${path}#${name}`);
    const title = name === "" ? "There is no link here" : "This link is not complete";
    await query.opened.locator("h1", { hasText: title }).waitFor();
  }
  checks.same("what is no token is told", query.opened.url(), `${demo.address}${path}`);
  return checks.results;
}
