// What the edge refuses before the origin is asked: links for something else, what nobody signed,
// requests of other sites.

import { randomBytes } from "node:crypto";
import { asV1, FORM, RIGHT } from "./edge_worker.mjs";

export const UNCHECKABLE = "400 This link cannot be judged here";

export async function linksForSomethingElse({ checks, signer, origin, edge }) {
  origin.now("unknown");
  const before = origin.requests.length;
  for (const [page, other] of [
    ["activate", "recover"],
    ["recover", "activate"],
    ["activate", "invite"],
    ["invite", "activate"],
    ["invite", "recover"],
  ]) {
    for (const format of ["v2", "v3"]) {
      const token = signer.token(format, other, other === "recover" ? RIGHT : undefined);
      for (const answer of [await edge.open(page, token), await edge.press(page, token, RIGHT)]) {
        checks.same(
          `a ${format} link to ${other} on /${page}`,
          answer.title,
          "This link is for something else",
        );
      }
    }
  }
  const junkOf = (page) => edge.press(page, Buffer.alloc(64, 7).toString("base64url"));
  checks.same("a v1 token on /invite", (await junkOf("invite")).title, "This link is not genuine");
  const recovery = signer.token("v1", "recover", RIGHT);
  checks.same(
    "a v1 link to recover on /activate",
    (await edge.press("activate", recovery)).title,
    "This link is not genuine",
  );
  checks.same("of all these the origin was not asked", origin.requests.length, before);

  // What has the length of a v1 token can be judged by nobody but the database.
  const junk = Buffer.alloc(64, 7).toString("base64url");
  checks.same(
    "v1 junk on /recover is shown a form",
    (await edge.open("recover", junk)).status,
    200,
  );
  checks.same(
    "without a code it ends there",
    (await edge.press("recover", junk)).title,
    "The code is missing",
  );
  checks.same(
    "with half a code, too",
    (await edge.press("recover", junk, "123")).title,
    "A code is five digits",
  );
  checks.same("so far the origin was not asked", origin.requests.length, before);
  // As it is typed with a blank and a hyphen, and in full width.
  const wide = String.fromCharCode(RIGHT.charCodeAt(3) + 0xfee0);
  const typed = ` ${RIGHT.slice(0, 2)} ${RIGHT[2]}-${wide}${RIGHT[4]}`;
  const known = await edge.press("recover", junk, typed);
  checks.same("with a code the database says no", known.title, "This link belongs to nobody");
  const activation = signer.token("v1", "activate");
  await edge.press("recover", activation, RIGHT);
  const [asked, mixed] = origin.requests.slice(-2).map(({ body }) => body);
  checks.same(
    "which was asked for this action",
    `${asked.action} ${asked.code}`,
    `recover ${RIGHT}`,
  );
  checks.same("and likewise of a v1 link to activate", mixed.action, "recover");
  origin.now("away");
  checks.same(
    "an outage is told",
    (await edge.press("recover", junk, RIGHT)).text,
    /was not counted as a try/,
  );
}

/**
 * With v1 recoveries refused, as they are unless somebody allows them, nothing on this page gets
 * past the edge unproven.
 */
export async function junkOnRecoveries({ checks, signer, origin, edge }) {
  origin.now("ok");
  const before = origin.requests.length;
  const genuine = signer.token("v1", "recover", RIGHT);
  const shown = await edge.open("recover", genuine);
  checks.same(
    "a v1 recovery is refused when it is opened",
    `${shown.status} ${shown.title}`,
    UNCHECKABLE,
  );
  for (const token of [
    genuine,
    randomBytes(64).toString("base64url"),
    asV1(signer.token("v2", "recover", RIGHT)),
  ]) {
    const pressed = await edge.press("recover", token, RIGHT);
    checks.same("and when it is pressed", `${pressed.status} ${pressed.title}`, UNCHECKABLE);
  }
  const statuses = new Set();
  for (const format of ["v2", "v3"]) {
    const bytes = Buffer.from(signer.token(format, "recover", RIGHT), "base64url");
    for (let number = 0; number < 200; number += 1) {
      // Another secret under the genuine header and signature.
      randomBytes(32).copy(bytes, 14);
      statuses.add((await edge.press("recover", bytes.toString("base64url"), RIGHT)).status);
    }
  }
  checks.same("forged recoveries of v2 and v3 are refused", [...statuses].join(), "403");
  checks.same("the origin was asked about none of all these", origin.requests.length, before);
  const activation = await edge.press("activate", signer.token("v1", "activate"));
  checks.same(
    "a v1 activation, which is proven, still works",
    activation.title,
    "Your account is active",
  );
}

export async function callers({ checks, origin, edge }) {
  origin.now("ok");
  const before = origin.requests.length;
  const post = (headers, body = "{}") =>
    fetch(`${edge.url}/api/request`, { method: "POST", headers, body });
  const json = "application/json";
  const foreign = await post({ "Content-Type": json, Origin: "https://elsewhere.example" });
  checks.same("a page of another site is refused", foreign.status, 403);
  const nowhere = await post({ "Content-Type": json, Origin: "null" });
  checks.same("so is one of no site", nowhere.status, 403);
  checks.same("a form is refused", (await post({ "Content-Type": FORM })).status, 415);
  checks.same("nothing of that reached the origin", origin.requests.length, before);
  checks.same(
    "a page of this site is not",
    (await post({ "Content-Type": json, Origin: edge.url })).status,
    200,
  );
}
