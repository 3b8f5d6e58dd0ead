// The edge function alone, as it was built, in workerd: with an origin that does what the test
// says, and Durable Objects that fail when they are told to.

import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { write } from "../../verifier-wasm/npm/test/runtimes/consumer.mjs";
import { version, workerd } from "../../verifier-wasm/npm/test/runtimes/programs.mjs";
import { withWorker } from "../../verifier-wasm/npm/test/runtimes/workerd.mjs";
import { until, within } from "../../verifier-wasm/npm/test/waiting.mjs";
import { RecordingOrigin } from "./origin.mjs";
import { Signer } from "./signer.mjs";

const FORM = "application/x-www-form-urlencoded";
const TYPE = { "Content-Type": FORM };
const RIGHT = "01234";
const WRONG = ["00000", "11111", "22222", "33333", "44444", "55555", "66666"];

const TOO_MANY = "Too many codes were tried";
const UNCHECKABLE = "400 This link cannot be judged here";

/** No point of the curve has this ordinate, 2. */
const NO_POINT = Buffer.concat([Buffer.of(2), Buffer.alloc(31)]);
const NO_KEY = `mrpk_${NO_POINT.toString("base64url")}`;

/** The built Worker, its objects asking the origin whether to fail. */
const MAIN = `
import { UsedToken as Used } from "./worker.js";
export { default } from "./worker.js";

const faulty = (Real) => class extends Real {
  constructor(state, env) {
    super(state, env);
    this.origin = env.ORIGIN;
    this.storage = state.storage;
  }
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const faults = await (await this.origin.fetch("http://origin/faults")).json();
    try {
      return await this.answer(request, pathname, faults);
    } finally {
      await this.origin.fetch("http://origin/done?" + new URLSearchParams({ pathname }));
    }
  }
  async answer(request, pathname, faults) {
    if (faults.includes(pathname)) throw new Error("the object is broken");
    if (faults.includes("slow " + pathname)) await scheduler.wait(150_000);
    const answer = await super.fetch(request);
    if (pathname === "/withdraw") {
      const { size } = await this.storage.list();
      const what = size + " entries, alarm " + (await this.storage.getAlarm() !== null);
      await this.origin.fetch("http://origin/kept?" + new URLSearchParams({ what }));
    }
    if (faults.includes("late " + pathname)) throw new Error("the answer of the object is lost");
    return answer;
  }
};
export class UsedToken extends faulty(Used) {}
`;

/** One Worker for what needs no other settings. */
export async function edgeAlone({ folder, site, mailroom }) {
  const checks = new Checks();
  const signer = new Signer(mailroom, join(folder, "edge-keys"));
  const origin = await RecordingOrigin.start();
  try {
    await withEdge({ folder, site, origin, texts: textsOf(signer, origin) }, async (edge) => {
      const scene = { checks, signer, origin, edge };
      await triesOfAnOutage(scene);
      await oneRowInAnotherFormat(scene);
      await visitorsWhoLeave(scene);
      await guessesAtOnce(scene);
      await storesThatFail(scene);
      await linksForSomethingElse(scene);
      await callers(scene);
    });
    await settings({ checks, folder, site, signer, origin });
  } finally {
    origin.end();
  }
  return checks.results;
}

/** Presses while the origin is away lock nobody out, and wrong codes count all the same. */
async function triesOfAnOutage({ checks, signer, origin, edge }) {
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
async function oneRowInAnotherFormat({ checks, signer, origin, edge }) {
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

/** Whoever closes the page, or loads it anew, while the origin is asked. */
async function visitorsWhoLeave({ checks, signer, origin, edge }) {
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

/** How long the edge waits for its store to take a try back, in milliseconds: edge/tries.ts. */
const STORE_TIMEOUT = 5_000;

/**
 * However many ask at once, and whatever is given back meanwhile, five learn that they are wrong.
 */
async function guessesAtOnce({ checks, signer, origin, edge }) {
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

async function storesThatFail({ checks, signer, origin, edge }) {
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

async function linksForSomethingElse({ checks, signer, origin, edge }) {
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
async function junkOnRecoveries({ checks, signer, origin, edge }) {
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

async function callers({ checks, origin, edge }) {
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

/** Keys as people paste them, and what is no list of keys. */
async function settings({ checks, folder, site, signer, origin }) {
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

function textsOf(signer, origin) {
  const { secretKeys, publicKeys } = signer;
  return {
    MAILROOM_SECRET_KEYS: secretKeys.join(" "),
    MAILROOM_PUBLIC_KEYS: publicKeys.join(" "),
    ORIGIN_PASSWORD: origin.password,
    SERVE_TOKEN: origin.bearer,
    V1_RECOVERIES: "allow",
  };
}

/** The secret of a v2 or v3 token with 32 bytes behind it, as long as a token of v1. */
function asV1(token) {
  return Buffer.concat([
    Buffer.from(token, "base64url").subarray(14, 46),
    randomBytes(32),
  ]).toString("base64url");
}

async function withEdge({ folder, site, origin, texts, log }, use) {
  const program = workerd();
  const own = join(folder, "edge");
  rmSync(own, { recursive: true, force: true });
  mkdirSync(own, { recursive: true });
  for (const name of readdirSync(join(site, "edge")))
    copyFileSync(join(site, "edge", name), join(own, name));
  write(own, "main.mjs", MAIN);
  const servers = { ORIGIN: origin.address, SERVE: origin.address, ASSETS: origin.address };
  const objects = { USED_TOKENS: "UsedToken" };
  const bindings = { texts, servers };
  const worker = {
    program,
    folder: own,
    main: "main.mjs",
    date: version(program),
    bindings,
    objects,
    log,
  };
  await withWorker(worker, (url) => use(new Edge(url)));
}

class Edge {
  url;

  constructor(url) {
    this.url = url;
  }

  async open(page, token) {
    return read(await fetch(`${this.url}/${page}?${new URLSearchParams({ token })}`));
  }

  async press(page, token, code) {
    return read(
      await fetch(`${this.url}/${page}`, {
        method: "POST",
        headers: TYPE,
        body: fieldsOf(token, code),
      }),
    );
  }

  /**
   * Ends the connection when the origin is asked, by a reset, which is what workerd takes for a
   * visitor who has gone.
   */
  async pressAndLeave(page, token, code, isAsked) {
    const sent = request(`${this.url}/${page}`, { method: "POST", headers: TYPE });
    sent.on("error", () => undefined);
    sent.end(fieldsOf(token, code));
    await isAsked();
    sent.socket.resetAndDestroy();
  }
}

function fieldsOf(token, code) {
  return new URLSearchParams(code === undefined ? { token } : { token, code }).toString();
}

async function read(response) {
  const page = await response.text();
  const title = /<h1>([^<]*)/.exec(page)?.[1];
  const text = /<p role="alert" class="alert">([^<]*)/.exec(page)?.[1];
  return { status: response.status, title, text };
}
