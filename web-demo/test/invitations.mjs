// Invitations of a product whose table has uuid keys:
// made with their mail or not at all, and accepted once.

import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { until } from "../../verifier-wasm/npm/test/waiting.mjs";
import { tokenOf } from "./visitor.mjs";

const TEAM = "Parsers & <b>Compilers</b>";

export async function invitations({ visitor, demo }) {
  const checks = new Checks();
  for (const format of ["v3", "v2"]) await invitedBy(format, { checks, visitor, demo });
  await waitsForAFormat({ checks, visitor, demo });
  await refusals({ checks, demo });
  return checks.results;
}

async function invitedBy(format, { checks, visitor, demo }) {
  const login = `invited-${format}`;
  const page = await prepared({ visitor, demo }, format, login);
  await page.fill("#team", TEAM);
  await page.click("#invite button");
  await visitor.mail(page, "invite");
  const row = async () => {
    const rows = await demo.query(
      `SELECT invitations.id::text, team, accepted_at IS NOT NULL AS accepted,
        issued_tokens.consumed_at IS NOT NULL AS used
      FROM product.invitations JOIN mailroom.issued_tokens ON subject_id = invitations.id::text
      WHERE email = $1`,
      [`${login}@example.test`],
    );
    return `${rows.length} ${rows[0].team} ${rows[0].accepted} ${rows[0].used}`;
  };
  checks.same(`${format}: a row has its token`, await row(), `1 ${TEAM} false false`);
  await page.waitForSelector("#invitation dl");
  const shown = (await page.textContent("#invitation")).replace(/\s+/g, " ");
  checks.same(
    `${format}: the row is shown, with its uuid`,
    shown,
    /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/,
  );
  checks.same(`${format}: and its team as text`, shown.includes(TEAM), true);

  const link = await visitor.follow(page, "invite");
  const judged = format === "v3" ? /has verified it/ : /needs the shared key/;
  checks.same(
    `${format}: the page of /invite judges the link`,
    await link.textContent("#page-check"),
    judged,
  );
  checks.same(`${format}: opening it accepts nothing`, await row(), `1 ${TEAM} false false`);
  const href = await visitor.link(page, "invite");
  const elsewhere = await visitor.open(href.replace("/invite", "/activate"));
  checks.same(
    `${format}: on /activate it is refused`,
    await elsewhere.textContent("h1"),
    "This link is for something else",
  );
  checks.same(
    `${format}: the button accepts`,
    await visitor.press(link),
    "You have joined the team",
  );
  checks.same(`${format}: link and row are used together`, await row(), `1 ${TEAM} true true`);
  await page.waitForSelector('#invitation:has-text("accepted at")');
  const again = await visitor.follow(page, "invite");
  checks.same(
    `${format}: the link works once`,
    await visitor.press(again),
    "This link was already used",
  );
  const secret = Buffer.from(tokenOf(href), "base64url").subarray(14, 46);
  const [{ verdict }] = await demo.query(
    "SELECT verdict::text FROM mailroom.redeem($1, 'invite')",
    [secret],
  );
  checks.same(`${format}: also past the edge`, verdict, "used");
  checks.same(
    `${format}: the account is as it was`,
    await page.textContent("#status"),
    "provisioned",
  );
  for (const opened of [page, link, elsewhere, again]) await opened.close();
}

/** v1 signs no such link: the mail waits until something does. */
async function waitsForAFormat({ checks, visitor, demo }) {
  const page = await prepared({ visitor, demo }, "v1", "invited-v1");
  await page.click("#invite button");
  const state = "SELECT state::text FROM mailroom.deliveries ORDER BY token DESC LIMIT 1";
  await until("the deferral", async () => (await demo.query(state))[0].state === "deferred");
  checks.same("v1: no mail comes", await page.locator('#mails [data-action="invite"]').count(), 0);
  await visitor.set(page, "format", "v3");
  await visitor.mail(page, "invite");
  const link = await visitor.follow(page, "invite");
  checks.same("v1: with v3 it comes", await visitor.press(link), "You have joined the team");
  for (const opened of [page, link]) await opened.close();
}

async function refusals({ checks, demo }) {
  const counts = async () => {
    const tables =
      "(SELECT count(*) FROM product.invitations) AS rows, " +
      "(SELECT count(*) FROM mailroom.issued_tokens) AS tokens";
    const [{ rows, tokens }] = await demo.query(`SELECT ${tables}`);
    return `${rows} ${tokens}`;
  };
  const before = await counts();
  const email = "nobody@example.test";
  for (const [name, body] of [
    ["an address that only the database refuses", { team: "a", email: "a,b@example.test" }],
    ["no address", { team: "a", email: "nobody" }],
    ["an address with another line", { team: "a", email: "a@example.test\nBcc: b@example.test" }],
    ["an empty team", { team: " ", email }],
    ["a team of 255 characters", { team: "a".repeat(255), email }],
    ["a team with a control character", { team: "a\u0000", email }],
    ["a team that is an object", { team: { toString: 1 }, email }],
    ["nothing", {}],
  ]) {
    const response = await fetch(`${demo.address}/api/invite`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const { field, message } = await response.json();
    checks.same(
      `${name} is refused with a reason`,
      `${response.status} ${field} ${message}`,
      /^422 (team|email) .{15}/,
    );
  }
  checks.same("neither a row nor a token is left of them", await counts(), before);
}

async function prepared({ visitor, demo }, format, login) {
  await demo.change("format", { format });
  return visitor.register(login);
}
