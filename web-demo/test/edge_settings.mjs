// The settings of the edge: keys as people paste them, what is no list of keys, and recoveries of
// v1 that are refused.

import { junkOnRecoveries, UNCHECKABLE } from "./edge_refusals.mjs";
import { RIGHT, textsOf, withEdge } from "./edge_worker.mjs";

/** No point of the curve has this ordinate, 2. */
const NO_POINT = Buffer.concat([Buffer.of(2), Buffer.alloc(31)]);
const NO_KEY = `mrpk_${NO_POINT.toString("base64url")}`;

/** Keys as people paste them, and what is no list of keys. */
export async function settings({ checks, folder, site, signer, origin }) {
  origin.now("ok");
  const whole = textsOf(signer, origin);
  const spread = {
    ...whole,
    MAILROOM_SECRET_KEYS: `\n  ${whole.MAILROOM_SECRET_KEYS.replace(" ", "  \n\t")} \n`,
  };
  await withEdge({ folder, site, origin, texts: spread }, async (edge) => {
    const { title } = await edge.press("activate", signer.token("v2", "activate"));
    checks.same("keys may stand apart by any blanks", title, "Your account is active");
  });
  const { V1_RECOVERIES: _, ...silent } = whole;
  await withEdge({ folder, site, origin, texts: silent }, (edge) =>
    junkOnRecoveries({ checks, signer, origin, edge }),
  );
  const refusing = { ...whole, V1_RECOVERIES: "refuse" };
  await withEdge({ folder, site, origin, texts: refusing }, async (edge) => {
    const { status, title } = await edge.press(
      "recover",
      signer.token("v1", "recover", RIGHT),
      RIGHT,
    );
    checks.same(
      "what is refused by default can be refused by word",
      `${status} ${title}`,
      UNCHECKABLE,
    );
  });
  for (const [name, wrong, reason] of [
    [
      "a switch that is neither",
      { V1_RECOVERIES: "yes" },
      "V1_RECOVERIES is neither refuse nor allow",
    ],
    [
      "a public key that is no point",
      { MAILROOM_PUBLIC_KEYS: `${whole.MAILROOM_PUBLIC_KEYS} ${NO_KEY}` },
      "key 2 of MAILROOM_PUBLIC_KEYS is no Ed25519 public key",
    ],
    ["no shared key", { MAILROOM_SECRET_KEYS: " " }, "MAILROOM_SECRET_KEYS holds no key"],
    ["no public key", { MAILROOM_PUBLIC_KEYS: "" }, "MAILROOM_PUBLIC_KEYS holds no key"],
    [
      "half a key",
      { MAILROOM_SECRET_KEYS: `${whole.MAILROOM_SECRET_KEYS} ${"ab".repeat(16)}` },
      "key 3 of MAILROOM_SECRET_KEYS is not 64 hexadecimal characters",
    ],
    [
      "an empty password",
      { ORIGIN_PASSWORD: "" },
      "ORIGIN_PASSWORD has to be at least 16 characters",
    ],
    ["half a bearer token", { SERVE_TOKEN: "mrst_" }, "SERVE_TOKEN has to be at least 16"],
  ]) {
    const texts = { ...whole, ...wrong };
    let log = "";
    await withEdge({ folder, site, origin, texts, log: (said) => (log = said) }, async (edge) => {
      const answer = await edge.press("activate", signer.token("v3", "activate"));
      checks.same(
        `with ${name} links are refused`,
        `${answer.status} ${answer.title}`,
        "500 This site is not set up",
      );
      checks.same(
        `and with ${name} nothing is registered`,
        (
          await fetch(`${edge.url}/api/request`, {
            method: "POST",
            headers: { "Content-Type": "application/json" },
            body: "{}",
          })
        ).status,
        500,
      );
    });
    checks.same(`the log says of ${name}`, log.includes(reason), true);
    checks.same(`and no key of ${name}`, log.includes("abab"), false);
  }
}
