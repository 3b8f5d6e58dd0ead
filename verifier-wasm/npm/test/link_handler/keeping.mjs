// What a page does not lose: its link, by a reload, by the way back, by a press that the network
// lost; and what it forgets at the end.

import { onSite } from "./browser.mjs";
import { fragmentSite, newLink as newPublicLink } from "./fragment.mjs";
import { newLink } from "./server.mjs";

const ACTIVATE = "Activate your account";
const AGAIN = "Open the link again";

/** What programs that collect the state of pages would find. */
const kept = (page) =>
  page.evaluate(() =>
    JSON.stringify([history.state, { ...sessionStorage }, { ...localStorage }, document.cookie]),
  );

export function keptByPages(context, site) {
  return onSite(
    context,
    { site },
    async ({ checks, database, page, open, press, heading, address, asked }) => {
      const { token, secret } = newLink("activate");
      const uses = () => database.used.length;
      await open(token, "activate");
      for (const time of ["once", "twice"]) {
        await page.reload();
        await page.waitForSelector("button");
        checks.same(`a reload, ${time}, shows the form`, await heading(), ACTIVATE);
        checks.same("with a clean address", page.url(), `${address}/activate`);
      }
      await page.goto("about:blank");
      await page.goBack();
      await page.waitForSelector("button");
      checks.same("so does the way back", await heading(), ACTIVATE);
      const found = await kept(page);
      checks.same(
        "neither place tells the token",
        found.includes(token) || found.includes(token.slice(20, 40)),
        false,
      );
      checks.same("something is kept", /mailroom/.test(found), true);
      checks.same("nothing was used by that", uses(), 0);

      await page.context().setOffline(true);
      await page.click("button").catch(() => {});
      await page.waitForFunction(
        () => document.querySelector("button[id^=reload]") !== null || document.forms.length === 0,
      );
      await page.context().setOffline(false);
      await page.goBack();
      await page.waitForSelector("button");
      checks.same(
        "after a press that the network lost the way back shows the form",
        await heading(),
        ACTIVATE,
      );
      database.answer = "throws";
      await press();
      checks.same("an outage is told", await heading(), "Try again in a moment");
      await page.reload();
      await page.waitForSelector("button");
      checks.same("and a reload after it shows the form", await heading(), ACTIVATE);
      database.answer = "ok";
      await press();
      checks.same(
        "the button activates",
        `${await heading()} ${database.used.join()}`,
        `Your account is active ${secret}`,
      );
      checks.same("after that nothing is kept", await kept(page), '[null,{},{},""]');
      const posts = () => asked.filter(({ method }) => method === "POST").length;
      const before = posts();
      await page.reload();
      checks.same("a reload sends nothing again", `${posts() - before} ${uses()}`, "0 1");
      const text = async () => page.textContent("main");
      checks.same(
        "and says that it does not know",
        /does not know which link/.test(await text()),
        true,
      );
      checks.same(
        "not that nothing was done",
        /nothing was done|already used/i.test(await text()),
        false,
      );
      for (let step = 0; step < 3; step += 1) {
        await page.goBack();
        if (!page.url().startsWith(address)) break;
        checks.same("the way back shows no form", await page.locator("button").count(), 0);
      }
      checks.same("and nothing is sent", posts() - before, 0);

      await open(token, "activate");
      await press();
      checks.same("a used link is told", await heading(), "This link was already used");
      await page.reload();
      checks.same("and forgotten", await heading(), AGAIN);
      await open(newLink("activate", -10).token, "activate");
      checks.same("an expired one is told", await heading(), "This link has expired");
      checks.same("and forgotten, too", await kept(page), '[null,{},{},""]');
      const recovery = newLink("recover");
      await open(recovery.token, "recover");
      await page.fill("#code", "00000");
      await press();
      await page.reload();
      await page.waitForSelector("#code");
      checks.same(
        "a reload after a wrong code shows the form",
        await heading(),
        "Recover your account",
      );
      await page.fill("#code", ` ${recovery.code.slice(0, 2)} ${recovery.code.slice(2)}`);
      await press();
      checks.same("a code with blanks is taken", await heading(), "Your account is recovered");
      await open(newLink("activate").token, "activate");
      await page.evaluate(() => sessionStorage.clear());
      await page.reload();
      checks.same("a tab that keeps nothing asks for the link", await heading(), AGAIN);
    },
  );
}

/** Without script a reload sends nothing again: after a wrong code the browser is led to a page. */
export function reloadedWithoutScript(context, site) {
  return onSite(
    context,
    { site },
    async ({ checks, database, page, open, press, heading, asked }) => {
      const { token, code, secret } = newLink("recover");
      await open(token, "recover");
      await page.waitForURL(/open=/);
      const posts = () => asked.filter(({ method }) => method === "POST").length;
      for (let wrong = 1; wrong <= 2; wrong += 1) {
        await page.fill("#code", "00000");
        await press();
        for (let time = 0; time < 4; time += 1) {
          checks.same("a wrong code is told", await heading(), "That is not the code");
          checks.same("as wrong", await page.getAttribute("#code", "aria-invalid"), "true");
          await page.reload();
        }
        checks.same("a reload sends nothing again", posts(), wrong);
      }
      await page.goBack();
      checks.same("the way back shows a form", await page.isVisible("#code"), true);
      checks.same("and sends nothing", posts(), 2);
      checks.same("no address tells the token", page.url().includes(token), false);
      await page.fill("#code", code);
      await press();
      checks.same("the right one recovers", await heading(), "Your account is recovered");
      checks.same("the account of the link", database.used.join(), secret);
      const left = await page.context().cookies();
      checks.none(
        "no cookie is left",
        left.filter(({ name }) => name.startsWith("mailroom")),
      );
    },
  );
}

/** Damaged links leave the address as whole ones do, and the application's own parameters stay. */
export function damaged(context, site) {
  return onSite(context, { site }, async ({ checks, database, page, press, heading, address }) => {
    for (const [link, rest] of [
      ["/activate?TOKEN=TOKEN.&from=mail", "/activate?from=mail"],
      ["/activate%3Ftoken%3DTOKEN", "/activate"],
      ["/activate%253Ftoken%253DTOKEN", "/activate"],
      ["/activate%23TOKEN", "/activate"],
      ["/activate&token=TOKEN", "/activate"],
      ["/activate?x=1;token=TOKEN", "/activate"],
      ["/activate?next=/a?token=z&token=TOKENThank%20you", "/activate?next=%2Fa%3Ftoken%3Dz"],
      ["/activate?a=1&amp%3Btoken=TOKEN", "/activate?a=1"],
      ["/activate?token%5Cu003dTOKEN", "/activate"],
      ["/activate?tok%E2%80%8Een=TOKEN&a=1", "/activate?a=1"],
      ["/activate?%EF%BD%94oken=TOKEN&a=1", "/activate?a=1"],
      ["/activate?tok=en=3DTOKEN", "/activate"],
      ["/activate?token:TOKEN", "/activate"],
      ["/activate?a=1&token=&nbsp;TOKEN&shy;", "/activate?a=1"],
      ["/activate%EF%BC%9Ftoken%EF%BC%9DTOKEN", "/activate"],
      ["/activate%EF%BC%83TOKEN", "/activate"],
      ["/activate*TOKEN__;Iw!!NEt6yMaO!x$", "/activate"],
      ["/activate-3Ftoken-3DTOKEN", "/activate"],
      ["/activate/token=TOKEN", "/activate"],
      ["/acti%C2%ADvate?token=TOKEN", "/acti%C2%ADvate"],
    ]) {
      const { token, secret } = newLink("activate");
      await page.goto(address + link.replace(/TOKEN(?!=)/, token));
      await page.waitForSelector("button");
      const shown = page.url().slice(address.length);
      checks.same(
        `${link} leaves the address`,
        decodeURIComponent(shown),
        decodeURIComponent(rest),
      );
      await press();
      checks.same(
        "its button activates",
        `${await heading()} ${database.used.at(-1)}`,
        `Your account is active ${secret}`,
      );
    }
  });
}

/** The same of tokens behind `#`, which may come into a page that is open. */
export function keptBehindHash(context, site) {
  return fragmentSite(
    context,
    site,
    async ({ checks, database, page, address, open, press, heading }) => {
      const { token, secret } = newPublicLink();
      await open(`#${token}`, "button");
      await page.reload();
      await page.waitForSelector("button");
      checks.same(
        "a reload shows the form",
        `${await heading()} ${page.url()}`,
        `${ACTIVATE} ${address}/activate`,
      );
      checks.same("nothing was used", database.used.length, 0);
      await press();
      checks.same("its button activates", database.used.join(), secret);
      const paste = async (link) => {
        await page.evaluate((link) => {
          document.documentElement.dataset.before = "";
          location.assign(link);
        }, `${address}/activate#${link}`);
        // Of the page that comes, since this one may have a button, too.
        await page.waitForSelector(":root:not([data-before]) button");
      };
      const second = newPublicLink();
      await paste(second.token);
      checks.same(
        "a link pasted into the page that says done is opened",
        await heading(),
        ACTIVATE,
      );
      checks.same("and has left the address", page.url(), `${address}/activate`);
      for (const link of ["Token=TOKEN", "token%3DTOKEN.", "TOKEN%20", "token=TOKEN&from=mail"]) {
        const { token } = newPublicLink();
        await open(`#${link.replace("TOKEN", token)}`, "button");
        checks.same(
          `#${link} is opened`,
          `${await heading()} ${page.url()}`,
          `${ACTIVATE} ${address}/activate`,
        );
      }
      const third = newPublicLink();
      await paste(third.token);
      await press();
      checks.same("so is one pasted into a form", database.used.at(-1), third.secret);
      await page.goto(`${address}//other.example/activate#${second.token}`);
      await page.waitForSelector("button");
      checks.same("an address of two slashes", page.url(), `${address}//other.example/activate`);
      await press();
      checks.same("works", database.used.at(-1), second.secret);
    },
  );
}
