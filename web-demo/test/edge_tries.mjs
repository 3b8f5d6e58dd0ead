// Which tries at a code the edge counts: wrong ones, in outages and as another format, too; and how
// many of those at once get a verdict.

import { asV1, RIGHT, WRONG } from "./edge_worker.mjs";

const TOO_MANY = "Too many codes were tried";

/** Presses while the origin is away lock nobody out, and wrong codes count all the same. */
export async function triesOfAnOutage({ checks, signer, origin, edge }) {
  for (const format of ["v2", "v3"]) {
    for (const [name, away, found] of [
      ["says that it can do nothing", "away", /nothing was done.*not counted as a try/],
      [
        "hangs up",
        "silent",
        format === "v2" ? /not known whether.*not counted as a try/ : /not known.*may have been/,
      ],
    ]) {
      const token = signer.token(format, "recover", RIGHT);
      origin.now(away);
      const texts = [];
      for (let press = 0; press < 6; press += 1) {
        const { title, text } = await edge.press("recover", token, RIGHT);
        if (title !== "The application does not answer" || !found.test(text))
          texts.push(`${title}: ${text}`);
      }
      checks.none(`${format}: an origin that ${name} is told six times`, texts);
      origin.now("ok");
      const { title } = await edge.press("recover", token, RIGHT);
      checks.same(
        `${format}: and the code works once it does not`,
        title,
        "Your account is recovered",
      );
    }
  }

  const guessed = signer.token("v2", "recover", RIGHT);
  origin.now("away");
  for (const code of WRONG.slice(0, 5)) {
    checks.same(
      "a wrong code is told in an outage, too",
      (await edge.press("recover", guessed, code)).status,
      422,
    );
    await edge.press("recover", guessed, RIGHT);
  }
  origin.now("ok");
  checks.same(
    "five wrong codes lock, whatever was given back between them",
    (await edge.press("recover", guessed, RIGHT)).title,
    "Too many codes were tried",
  );

  // What only the database can compare.
  const compared = signer.token("v3", "recover", RIGHT);
  const verdicts = [];
  for (const code of WRONG.slice(0, 6)) {
    origin.now("silent");
    await edge.press("recover", compared, code);
    origin.now("wrong_code");
    verdicts.push((await edge.press("recover", compared, code)).status);
  }
  checks.same("of v3 five wrong codes get a verdict", verdicts.join(), "422,422,422,422,422,429");
  origin.now("not_eligible");
  const refused = signer.token("v2", "recover", RIGHT);
  const statuses = [];
  for (let press = 0; press < 6; press += 1)
    statuses.push((await edge.press("recover", refused, RIGHT)).status);
  checks.same(
    "an account that cannot be recovered now locks nothing",
    statuses.join(),
    "409,409,409,409,409,409",
  );
}

/**
 * The secret stands in clear in a token, and fits into one of v1,
 * which only the database can judge.
 */
export async function oneRowInAnotherFormat({ checks, signer, origin, edge }) {
  for (const format of ["v2", "v3"]) {
    const locked = signer.token(format, "recover", RIGHT);
    origin.now("wrong_code");
    for (const code of WRONG.slice(0, 5)) await edge.press("recover", locked, code);
    origin.now("ok");
    const before = origin.requests.length;
    const again = await edge.press("recover", asV1(locked), RIGHT);
    checks.same(`${format}: five wrong codes lock the link as one of v1, too`, again.status, 429);
    checks.same(`${format}: and the origin is not asked`, origin.requests.length, before);

    const other = signer.token(format, "recover", RIGHT);
    origin.now("wrong_code");
    const verdicts = [];
    for (const code of WRONG.slice(0, 6))
      verdicts.push((await edge.press("recover", asV1(other), code)).status);
    checks.same(
      `as one of v1 a ${format} link gets five verdicts`,
      verdicts.join(),
      "422,422,422,422,422,429",
    );
    origin.now("ok");
    checks.same(
      `${format}: then the link itself is locked`,
      (await edge.press("recover", other, RIGHT)).status,
      429,
    );
  }
  for (const answer of ["unknown", "not_eligible", "away", "silent"]) {
    const token = asV1(signer.token("v3", "recover", RIGHT));
    origin.now(answer);
    origin.kept = undefined;
    const statuses = [];
    for (let press = 0; press < 6; press += 1)
      statuses.push((await edge.press("recover", token, RIGHT)).status);
    checks.none(
      `v1: '${answer}' counts no try`,
      statuses.filter((status) => status === 429),
    );
    checks.same(
      `v1: after '${answer}' the edge forgets by an alarm`,
      origin.kept,
      "1 entries, alarm true",
    );
  }
  origin.now("ok", "/attempt");
  const before = origin.requests.length;
  const uncounted = await edge.press("recover", asV1(signer.token("v3", "recover", RIGHT)), RIGHT);
  checks.same(
    "v1: what cannot be counted is not asked",
    uncounted.title,
    "The edge cannot look up this link",
  );
  checks.same("v1: not at all", origin.requests.length, before);

  // Locked by the database, which may have counted what the edge has not.
  const locked = signer.token("v3", "recover", RIGHT);
  origin.now("too_many_attempts");
  const titles = [];
  for (let press = 0; press < 3; press += 1)
    titles.push((await edge.press("recover", locked, RIGHT)).title);
  checks.same(
    "a link that the database has locked is never called used",
    [...new Set(titles)].join(),
    TOO_MANY,
  );
}

/** How long the edge waits for its store to take a try back, in milliseconds: edge/tries.ts. */
const STORE_TIMEOUT = 5_000;

/**
 * However many ask at once, and whatever is given back meanwhile, five learn that they are wrong.
 */
export async function guessesAtOnce({ checks, signer, origin, edge }) {
  const token = signer.token("v2", "recover", RIGHT);
  origin.now("away");
  const codes = Array.from({ length: 60 }, (_, number) =>
    number % 3 === 0 ? RIGHT : String(20_000 + number).padStart(5, "0"),
  );
  let slowest = 0;
  const statuses = await Promise.all(
    codes.map(async (code) => {
      const begun = performance.now();
      const { status } = await edge.press("recover", token, code);
      slowest = Math.max(slowest, performance.now() - begun);
      return status;
    }),
  );
  const wrong = statuses.filter((status) => status === 422).length;
  checks.same(
    "of forty wrong guesses beside twenty right codes at most five get a verdict",
    wrong <= 5,
    true,
  );
  // "Used" as well, while another right code is with the origin.
  checks.same(
    "the others get none",
    statuses.filter((status) => ![422, 429, 503, 409].includes(status)).length,
    0,
  );
  let verdicts = wrong;
  for (const code of WRONG)
    verdicts += (await edge.press("recover", token, code)).status === 422 ? 1 : 0;
  checks.same("and afterwards only what is left of the five", verdicts <= 5, true);
  // A try that the store could not take back in time counts, although nobody learnt anything.
  if (slowest < STORE_TIMEOUT) checks.same("and all that is left", verdicts, 5);
}
