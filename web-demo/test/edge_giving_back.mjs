// Links and tries that were not used are given back, also when the visitor leaves; where an object
// fails at that, the page says what is not known.

import { until, within } from "../../verifier-wasm/npm/test/waiting.mjs";
import { RIGHT } from "./edge_worker.mjs";

/** Whoever closes the page, or loads it anew, while the origin is asked. */
export async function visitorsWhoLeave({ checks, signer, origin, edge }) {
  /** @param done what its objects have been through once it is over */
  const leave = async (page, token, done, code) => {
    origin.now("held");
    await edge.pressAndLeave(page, token, code, () =>
      until("the question to the origin", () => origin.held === 1),
    );
    checks.same("whoever leaves has had the origin asked", origin.held, 1);
    const before = done.map((step) => origin.done(step));
    origin.answerHeld("away");
    for (const [at, step] of done.entries()) {
      await until(
        `the object's ${step} after a visitor has left`,
        () => origin.done(step) > before[at],
      );
    }
    origin.now("ok");
  };
  for (const format of ["v2", "v3", "v1"]) {
    const token = signer.token(format, "activate");
    await leave("activate", token, ["/release"]);
    const { title } = await edge.press("activate", token);
    checks.same(
      `${format}: a link works after somebody has left in an outage`,
      title,
      "Your account is active",
    );
  }
  for (const format of ["v2", "v3", "v1"]) {
    const token = signer.token(format, "recover", RIGHT);
    // The edge has used nothing of v1, which only the database can judge.
    const done = format === "v1" ? ["/withdraw"] : ["/release", "/withdraw"];
    for (let press = 0; press < 6; press += 1) await leave("recover", token, done, RIGHT);
    const { title } = await edge.press("recover", token, RIGHT);
    checks.same(
      `${format}: and so does a code, after six times`,
      title,
      "Your account is recovered",
    );
  }
}

export async function storesThatFail({ checks, signer, origin, edge }) {
  const activation = signer.token("v3", "activate");
  origin.now("away", "/release");
  const stuck = await edge.press("activate", activation);
  checks.same("a link that cannot be given back is no fault of the page", stuck.status, 503);
  checks.same(
    "which says what is not known",
    stuck.text,
    /could not note that the link was not used/,
  );
  const recovery = signer.token("v3", "recover", RIGHT);
  origin.now("wrong_code", "/release");
  const wrong = await edge.press("recover", recovery, RIGHT);
  checks.same("a wrong code is told all the same", wrong.title, "That is not the code");
  checks.same("with a word on the link", wrong.text, /could not note that the link was not used/);

  origin.now("ok", "/consume");
  const before = origin.requests.length;
  const denied = await edge.press("activate", signer.token("v3", "activate"));
  checks.same("a store that is away denies", denied.title, "The edge cannot look up this link");
  checks.same("which is no fault of the visitor", denied.status, 503);
  checks.same("who is asked to try again", denied.text, /Try again in a moment/);
  checks.same("and the origin is not asked", origin.requests.length, before);

  const counted = signer.token("v2", "recover", RIGHT);
  origin.now("ok", "late /attempt");
  const uncounted = [];
  for (let press = 0; press < 6; press += 1)
    uncounted.push((await edge.press("recover", counted, RIGHT)).text);
  checks.none(
    "tries whose number is lost on its way are taken back",
    uncounted.filter((text) => !/not counted as a try/.test(text)),
  );
  origin.now("away", "/withdraw");
  checks.same(
    "a try that cannot be taken back may count",
    (await edge.press("recover", counted, RIGHT)).text,
    /may have been counted/,
  );
  origin.now("away", "slow /withdraw");
  // Sooner than the object, which does not answer for longer than that.
  const slow = await within("an answer without the object", edge.press("recover", counted, RIGHT));
  checks.same("so may one of which nothing is heard", slow.text, /may have been counted/);
  origin.now("ok");
  checks.same(
    "then all works",
    (await edge.press("recover", counted, RIGHT)).title,
    "Your account is recovered",
  );
}
