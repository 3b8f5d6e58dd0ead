// Whatever a request has in it, the link handler's work grows in proportion to its length: four
// times the length takes about four times as long, not sixteen times. The time is that of the
// processor, of the quickest of several rounds, so other programs hardly change it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { genuine, load } from "./consumer.mjs";

const { createVerifier, createMemoryStore } = load("mailroom-verifier");
const { createLinkHandler, toNodeListener } = load("mailroom-verifier/handler");

const SITE = "https://app.example";
const FORM = "application/x-www-form-urlencoded";
const { key, token } = genuine.find(({ action }) => action === "activate");

/** Four times the length takes longer than this many times only where the work grows faster. */
const MOST = 10;

/** What is repeated in a text of any length; between two letters where it is marked. */
const REPEATED = {
  underscores: "_",
  hyphens: "-",
  "both signs": "_-",
  "exclamation marks": "!",
  brackets: "[]",
  letters: "A",
  digits: "1",
  "letters and a sign": "Ag_",
  dashes: "\u2014",
  "small dashes": "\u2013",
  "percent signs": "%",
  "percent signs, encoded again": "%25",
  "encoded percent signs in a chain": "25",
  "bytes that are no UTF-8": "%A0",
  ampersands: "&",
  semicolons: ";",
  slashes: "/",
  "encoded question marks": "%3F",
  "equals signs": "=",
  "equals signs and blanks": "=\t",
  "quoted-printable": "=3D",
  "a beginning of quoted-printable": "3D",
  "soft breaks": "=\r\n",
  "line breaks after hyphens": "-\r\n",
  blanks: " ",
  "control characters": "\u0001",
  "escapes of HTML": "&#",
  "whole escapes of HTML": "&#45;",
  "hexadecimal escapes of HTML": "&#x41;",
  "escapes of JSON": "\\u002d",
  "tags of line breaks": "<br ",
  "angle brackets": "<",
  "beginnings of tags": "<a b",
  "beginnings of comments": "<!-",
  "signs of HTML by their names": "&shy;",
  "escapes of HTML, escaped": "&amp;#45;",
  "breaks that are written out": "\\n",
  "names of who is quoted": "\nA>",
  "colours of a terminal": "\u001b[1",
  "escapes of tables": "_x000D_",
  "names of the token": "token",
  "names with a sign": "!token",
  "beginnings of names": "!t",
  "names with a break": "!tok\r\nen",
  "names with brackets": "token[0",
  "names and values": "token=x&",
  "empty tokens": "token=&",
  "names and values in a path": ";token=x",
  "parameters of a path": ";a=",
  "marks on one letter": "\u0301\u0316",
  "letters of full width": "\uff21",
  "a letter that is made of eighteen": "\ufdfa",
  "names of the action": "/activate!",
  "parts of the link": `${SITE}/activate?token=`,
  tokens: token,
  "addresses of mail": "a@",
  "quotation marks": `"'`,
  "numbers of lines": ":1",
  "places in a stack": "\nat a",
};

/** What is looked for, once, before what is repeated: a pattern may begin there and not end. */
const BEGUN = ["token", "tok", "token[0]", "/activate", "%3F", ";a=", "&#", "_x", "-3F", "<a "];

/** What is repeated behind it: one kind each of what patterns run over. */
const BEHIND = ["!", "!token", "=", "[]", "a", "-", ";a=", "%20", "\r\n", "/"];

/** A text of about this length. */
function long(unit, length, begun = "a", ended = "a") {
  const text = unit.repeat(Math.max(1, Math.floor(length / unit.length)));
  return begun + text + ended;
}

/** The same as many tokens, each as long as one that is mended may be. */
function many(unit, length) {
  const one = encodeURIComponent(long(unit, 200));
  return Array.from({ length: Math.ceil(length / one.length) }, () => `token=${one}`).join("&");
}

const press = (body, headers = {}) =>
  new Request(`${SITE}/activate`, {
    method: "POST",
    body,
    headers: { Origin: SITE, "Content-Type": FORM, ...headers },
  });
const get = (address, init) => new Request(SITE + address, init);

/** Where a text may stand, with the shorter of the two lengths. */
const PLACES = {
  "one token in an address": [
    480,
    (text) => get(`/activate?${new URLSearchParams({ token: text })}`),
  ],
  "one token in a form": [480, (text) => press(new URLSearchParams({ token: text }).toString())],
  "the query as it is": [4_000, (text) => get(`/activate?${text}`)],
  "the query, of HEAD": [4_000, (text) => get(`/activate?${text}`, { method: "HEAD" })],
  "behind the token": [4_000, (text) => get(`/activate?token=${token}&${text}`)],
  "many tokens": [4_000, (text, unit) => get(`/activate?${many(unit, text.length)}`)],
  "a path": [4_000, (text) => get(`/${text}/activate?token=${token}`)],
  "the end of a path": [4_000, (text) => get(`/activate${text}`)],
  "a query in the path": [4_000, (text) => get(`/activate%3Ftoken=${token}%26${text}`)],
  "a form as it is": [3_500, (text) => press(text.slice(0, 16_000))],
  "a field of a form": [
    1_000,
    (text) => press(new URLSearchParams({ token, code: text }).toString().slice(0, 16_000)),
  ],
};

/** Processor time that the quickest of several rounds takes, in microseconds. */
async function costOf(work, rounds) {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, user + system);
  }
  return least;
}

/** Compares the cost of a length with that of four times as much. */
async function demandLinear(what, length, make) {
  const [short, fourfold] = [make(length), make(4 * length)];
  // Less than the clock tells apart, and than what every request costs, is no growth.
  const floor = 1_000;
  for (let attempt = 1; ; attempt += 1) {
    const first = Math.max(floor, await costOf(short, attempt));
    const second = await costOf(fourfold, attempt);
    if (second <= MOST * first) return;
    // What else the process had to do, such as collecting garbage, is not there each time; it can
    // take longer than all the rest, so that one round alone is never clear.
    const isClear = attempt > 1 && second > 3 * MOST * first;
    const said = `${what}: ${first} µs, of four times the length ${second} µs`;
    assert(attempt < 4 && !isClear, said);
  }
}

function handler(more) {
  return createLinkHandler({
    verifier: createVerifier({ keys: key }),
    store: createMemoryStore({ capacity: 100_000 }),
    redeem: () => "away",
    onError: () => {},
    ...more,
  });
}

for (const [place, [length, request]] of Object.entries(PLACES)) {
  test(`the work grows with the length of ${place}`, async () => {
    const handle = handler();
    for (const [name, unit] of Object.entries(REPEATED)) {
      await demandLinear(`${name} in ${place}`, length, (size) => {
        const text = long(unit, size);
        return async () => (await handle(request(text, unit))).text();
      });
    }
  });
}

for (const place of ["one token in a form", "the query as it is", "the end of a path"]) {
  test(`the work grows with what follows a beginning in ${place}`, async () => {
    const handle = handler();
    const [length, request] = PLACES[place];
    for (const begun of BEGUN) {
      for (const unit of BEHIND) {
        const what = `${JSON.stringify(begun)} and then ${JSON.stringify(unit)} in ${place}`;
        await demandLinear(what, length, (size) => {
          const text = long(unit, size, begun, "/a");
          return async () => (await handle(request(text, unit))).text();
        });
      }
    }
  });
}

/** What is no token costs at most so many times what as long a text costs that stands beside it. */
const DEAREST = 8;

test("what cannot be decoded or has nothing in it costs about as much as letters", async () => {
  const handle = handler();
  const costing = (unit) => {
    const text = long(unit, 16_000);
    return async () => (await handle(get(`/activate?${text}`))).text();
  };
  for (const [dear, plain] of [
    ["%A0-", "%41-"],
    ["%25A0-", "%2541-"],
    ["&", "a"],
  ]) {
    for (let attempt = 4; ; attempt += 2) {
      const usual = Math.max(1_000, await costOf(costing(plain), attempt));
      const most = await costOf(costing(dear), attempt);
      if (most <= DEAREST * usual) break;
      assert(attempt < 10, `${dear}: ${most} µs, ${plain}: ${usual} µs`);
    }
  }
});

test("the work grows with the length of the headers", async () => {
  const handle = handler();
  for (const header of ["Cookie", "Accept-Language", "Origin", "Content-Type", "Referer"]) {
    for (const unit of [
      "a",
      ";",
      "; ",
      ",",
      "a=;",
      "mailroom-link-=;",
      "q=",
      " ",
      "a;q=1,",
      "%41",
    ]) {
      await demandLinear(`${unit} in ${header}`, 4_000, (size) => {
        const headers = { [header]: long(unit, size) };
        return async () => {
          await (await handle(get(`/activate?token=${token}`, { headers }))).text();
          await (await handle(press(`token=${token}`, headers))).text();
        };
      });
    }
  }
});

test("the work grows with the length of a new password", async () => {
  const handle = handler({ password: { actions: ["activate"] } });
  for (const [name, unit] of Object.entries(REPEATED)) {
    await demandLinear(`${name} in a password`, 1_900, (size) => {
      const body = `token=${token}&password=${long(unit, size).replace(/[%&+]/g, "")}`;
      return async () => (await handle(press(body.slice(0, 16_000)))).text();
    });
  }
});

test("the work grows with the length of a body that a parser has read", async () => {
  const listener = toNodeListener(handler());
  const headers = { host: "app.example", origin: SITE, "content-type": FORM };
  const bodies = {
    "one long name around many": (size) => ({
      ["a".repeat(size)]: Object.fromEntries(Array.from({ length: size / 8 }, (_, at) => [at, ""])),
    }),
    "a list": (size) => ({ ["a".repeat(size)]: Array.from({ length: size }, () => "") }),
    "many fields": (size) => Object.fromEntries(Array.from({ length: size }, (_, at) => [at, "a"])),
  };
  for (const [what, made] of Object.entries(bodies)) {
    await demandLinear(what, 8_000, (size) => {
      const body = made(size);
      return () =>
        new Promise((end) => {
          const request = { method: "POST", url: "/activate", headers, body };
          listener(request, { setHeader() {}, end });
        });
    });
  }
});

test("the work grows with the length of what the application threw", async () => {
  const { error } = console;
  console.error = () => {};
  try {
    for (const [name, unit] of Object.entries(REPEATED)) {
      for (const length of [480, 4_000]) {
        await demandLinear(`${name} in a message`, length, (size) => {
          const thrown = new Error(`x\nat ${long(unit, size)}`);
          const redeem = () => {
            throw thrown;
          };
          const handle = handler({ redeem, onError: undefined });
          return async () => (await handle(press(`token=${token}`))).text();
        });
      }
    }
  } finally {
    console.error = error;
  }
});

test("the work of the page's script grows with the length of the address", async () => {
  const page = await (await handler()(get(`/activate?token=${token}`))).text();
  const [, script] = /<script[^>]*>([\s\S]*?)<\/script>/.exec(page);
  const names = ["location", "history", "sessionStorage", "document", "addEventListener"];
  const run = new Function(...names, script);
  const history = { state: null, replaceState() {} };
  const storage = { getItem: () => null, setItem() {}, removeItem() {} };
  for (const [name, unit] of Object.entries(REPEATED)) {
    for (const [place, before] of Object.entries({ path: "", query: "activate?", hash: "a#" })) {
      await demandLinear(`${name} in the ${place}`, 4_000, (size) => {
        const { href } = new URL(`${SITE}/${before}${long(unit, size)}`);
        return () => run({ href, hash: "" }, history, storage, {}, () => {});
      });
    }
  }
});
