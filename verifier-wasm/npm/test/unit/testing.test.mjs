// The entry for the tests of others: what it signs, and how it waits for mails.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";

import { files } from "../readme/document.mjs";
import { consumer, installed, load, repository, run } from "./consumer.mjs";

const { createTestLinks, inbox } = load("mailroom-verifier/testing");
const { createGuard, createMemoryStore, createVerifier } = load("mailroom-verifier");
const { createVerifier: createPublicVerifier } = load("mailroom-verifier/public");
const { createLinkHandler } = load("mailroom-verifier/handler");
const { defineActions } = load("mailroom-verifier/actions");
const { FURTHER_ACTIONS } = load("mailroom-verifier/database");

const ACTIVATE = { action: "activate" };
/** In seconds. */
const MINUTE = 60;
const actions = defineActions({
  ...FURTHER_ACTIONS,
  two_letters: { number: 9, path: "/a/b", digits: 8 },
});

test("a link of every format, action and browser is genuine for the verifiers", async () => {
  const links = await createTestLinks({
    actions: defineActions({ two_letters: actions.two_letters }),
  });
  const shared = createVerifier({ keys: links.sharedKey, actions });
  const open = createPublicVerifier({ keys: links.publicKey, actions });
  for (const action of ["activate", "recover", ...Object.keys(actions)]) {
    for (const format of ["v1", "v2", "v3"]) {
      for (const bound of [false, true]) {
        if (format === "v1" && (bound || action in actions)) continue;
        const link = await links.sign({ action, format, bound });
        const { token, code, nonce } = link;
        const digits = { activate: 0, recover: 5 }[action] ?? actions[action].digits;
        assert.equal(code?.length ?? 0, digits);
        const verifier = format === "v3" ? open : shared;
        const expected = { action, nonce };
        const proven =
          format === "v3"
            ? verifier.verify(token, expected)
            : verifier.verifyWithUncountedCode(token, { ...expected, code });
        assert.deepEqual(proven.secret, link.secret);
        assert.deepEqual(proven.consumedId, link.consumedId);
        if (format !== "v1") assert.equal(proven.expiresAt, link.expiresAt);
        if (bound) {
          const { reason } = verifier.tryVerify(token, { action });
          assert.equal(reason, "ERR_TOKEN_OTHER_BROWSER");
        }
      }
    }
  }
});

test("a link that has expired or is forged is refused, and no key comes twice", async () => {
  const [links, others] = await Promise.all([createTestLinks(), createTestLinks()]);
  assert.notEqual(links.sharedKey, others.sharedKey);
  assert.notEqual(links.publicKey, others.publicKey);
  for (const [format, verifier] of [
    ["v2", createVerifier({ keys: links.sharedKey, clockTolerance: 999 })],
    ["v3", createPublicVerifier({ keys: links.publicKey, clockTolerance: 999 })],
  ]) {
    const judged = async (state, from = links) =>
      verifier.tryVerifyLink((await from.sign({ ...ACTIVATE, format, state })).token, ACTIVATE);
    assert.equal((await judged("valid")).ok, true);
    assert.equal((await judged("used")).ok, true);
    assert.equal((await judged("expired")).reason, "ERR_TOKEN_EXPIRED");
    const forged = await judged("forged");
    // In the name of the right key.
    assert.deepEqual([forged.reason, forged.message], ["ERR_TOKEN_SIGNATURE", "token signature"]);
    assert.equal((await judged("valid", others)).message, "token signature: key id");
  }
  const v1 = await links.sign({ ...ACTIVATE, format: "v1", state: "forged" });
  const verifier = createVerifier({ keys: links.sharedKey });
  assert.equal(verifier.tryVerify(v1.token, ACTIVATE).reason, "ERR_TOKEN_SIGNATURE");
});

test("a clock of the test's own decides when links end", async () => {
  const clock = () => 1_000_000;
  const links = await createTestLinks({ clock });
  const { expiresAt, token } = await links.sign(ACTIVATE);
  assert.equal(expiresAt, 1_003_600);
  assert.equal((await links.sign({ ...ACTIVATE, expiresAt: 1_000_001 })).expiresAt, 1_000_001);
  assert.ok(createVerifier({ keys: links.sharedKey, clock }).tryVerify(token, ACTIVATE).ok);
});

test("its redeem answers as the database does", async () => {
  const links = await createTestLinks();
  const first = await links.sign(ACTIVATE);
  assert.equal(links.redeem(first), "ok");
  assert.equal(links.redeem(first), "used");
  assert.equal(links.redeem({ ...first, action: "recover" }), "unknown");
  for (const [state, verdict] of Object.entries({
    ...{ valid: "ok", used: "used", expired: "expired", forged: "unknown" },
  })) {
    for (const format of ["v1", "v2", "v3"]) {
      assert.equal(links.redeem(await links.sign({ ...ACTIVATE, state, format })), verdict);
    }
  }
  const recovery = await links.sign({ action: "recover", code: "01234" });
  assert.equal(recovery.code, "01234");
  for (const code of [null, "00000", "00001", "00002", "00003"]) {
    assert.equal(links.redeem({ ...recovery, code }), "wrong_code");
  }
  assert.equal(links.redeem(recovery), "too_many_attempts");

  const bound = await links.sign({ ...ACTIVATE, bound: true });
  assert.equal(links.redeem({ ...bound, browserCode: undefined }), "wrong_code");
  assert.equal(links.redeem({ ...bound, browserCode: "none" }), "wrong_code");
  assert.equal(links.redeem(bound), "ok");
  const known = await links.sign({ ...ACTIVATE, bound: bound.nonce });
  assert.equal(known.nonce, bound.nonce);
  assert.equal(links.redeem({ ...known, browserCode: null, bindingIsProven: true }), "ok");
});

test("a guard and the handler take its links, in every state", async () => {
  const links = await createTestLinks();
  const verifier = createVerifier({ keys: links.sharedKey });
  const store = createMemoryStore({ capacity: 100 });
  const guard = createGuard({ verifier, store });
  const { token } = await links.sign({ ...ACTIVATE, state: "used", store });
  assert.equal((await guard.tryRedeem(token, ACTIVATE)).reason, "ERR_TOKEN_USED");

  const handle = createLinkHandler({
    verifier,
    store: createMemoryStore({ capacity: 100 }),
    redeem: links.redeem,
  });
  const site = "https://app.example";
  const press = async (wanted) => {
    const link = await links.sign(wanted);
    assert.ok(link.url(`${site}/`).startsWith(`${site}/${wanted.action}?token=${link.token}`));
    const opened = await handle(new Request(link.url(site)));
    await opened.text();
    const { code } = link;
    const pressed = await handle(
      new Request(link.url(site), {
        method: "POST",
        headers: { Origin: site },
        body: new URLSearchParams({ token: link.token, ...(code && { code }) }),
      }),
    );
    return [opened.status, pressed.status];
  };
  assert.deepEqual(await press({ action: "activate" }), [200, 200]);
  assert.deepEqual(await press({ action: "recover" }), [200, 200]);
  assert.deepEqual(await press({ action: "recover", format: "v1" }), [200, 200]);
  assert.deepEqual(await press({ action: "activate", state: "used" }), [200, 409]);
  assert.deepEqual(await press({ action: "activate", state: "expired" }), [410, 410]);
  assert.deepEqual(await press({ action: "activate", state: "forged" }), [403, 403]);
});

test("what cannot be signed is refused, and no key can be given", async () => {
  const links = await createTestLinks();
  for (const wanted of [
    { action: "notice" },
    { action: "two_letters" },
    { action: "invite", format: "v1" },
    { action: "activate", format: "v1", bound: true },
    { action: "activate", code: "01234" },
    { action: "recover", code: "1234" },
    { action: "activate", state: "used", expiresAt: 1 },
    { action: "activate", store: createMemoryStore({ capacity: 1 }) },
    { action: "activate", key: links.sharedKey },
  ]) {
    const refused = { reason: "ERR_INVALID_ARGUMENT" };
    await assert.rejects(links.sign(wanted), refused, JSON.stringify(wanted));
  }
  await assert.rejects(createTestLinks({ keys: links.sharedKey }), {
    reason: "ERR_INVALID_ARGUMENT",
  });
});

/** Serves JSON while `use` runs: what `answer` says of an address. */
async function serving(answer, use) {
  const server = createServer((request, response) => {
    const found = answer(new URL(request.url, "http://localhost"));
    response.statusCode = found === undefined ? 404 : 200;
    response.setHeader("Content-Type", found === undefined ? "text/html" : "application/json");
    response.end(found === undefined ? "<!doctype html>" : JSON.stringify(found));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use(`http://127.0.0.1:${server.address().port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** What stands for Mailpit: its search and its messages, as its documentation has them. */
function mailpitOf(mails) {
  const isFound = ({ To }, wanted) =>
    To.some(({ Address }) => Address.toLowerCase().includes(wanted));
  return ({ pathname, searchParams }) => {
    if (pathname === "/api/v1/search") {
      const [, wanted] = /^to:"(.+)"$/.exec(searchParams.get("query")) ?? [];
      const found = mails.filter((mail) => isFound(mail, wanted));
      const messages = found.map(({ ID, To, Subject }) => ({ ID, To, Subject }));
      return { total: mails.length, messages_count: found.length, messages };
    }
    return mails.find(({ ID }) => pathname === `/api/v1/message/${ID}`);
  };
}

test("a mail in Mailpit is waited for, and its link and code are read", async () => {
  const links = await createTestLinks();
  const site = "https://app.example";
  const mails = [];
  const send = async (action, Address, write = (url, code) => `${code ?? ""}\n${url}\n2026`) => {
    const link = await links.sign({ action });
    const Text = write(link.url(site), link.code);
    const ID = `m${mails.length}`;
    mails.unshift({ ID, To: [{ Name: "", Address }], Subject: action, Text, HTML: "" });
    return link;
  };
  await serving(mailpitOf(mails), async (address) => {
    const box = inbox(address);
    await send("activate", "ada@example.test.other");
    const waiting = box.link("ada@example.test", "activate", { timeout: MINUTE });
    await send("recover", "ada@example.test");
    const first = await send("activate", "Ada@Example.test");
    assert.equal(await waiting, first.url(site));
    const recovery = await box.mail("ada@example.test", "recover");
    assert.match(recovery.code, /^\d{5}$/);
    assert.equal(recovery.subject, "recover");
    assert.equal((await box.mail("ada@example.test")).subject, "activate");
    // A later one of the same kind, in a sentence and in HTML.
    const after = await box.mail("ada@example.test", "activate");
    const later = box.link("ada@example.test", "activate", { after, timeout: MINUTE });
    const second = await send("activate", "ada@example.test", (url) => `Open <${url}>.`);
    assert.equal(await later, second.url(site));
    assert.equal(await box.link("ada@example.test", "activate"), second.url(site));
    // Short: no such mail comes.
    await assert.rejects(box.link("ada@example.test", "invite", { timeout: 0 }), {
      reason: "ERR_MAIL_MISSING",
      message: "no mail of the action invite to ada@example.test came within 0 seconds",
    });
  });
});

test("a link in HTML alone is read, and one behind # too", async () => {
  const { token } = await (await createTestLinks()).sign(ACTIVATE);
  const To = [{ Address: "ada@example.test" }];
  for (const url of [
    `https://app.example/shop/activate?from=mail&token=${token}`,
    `https://app.example/shop/activate#${token}`,
  ]) {
    const HTML = `<a href="${url.replaceAll("&", "&amp;")}">Open</a>`;
    const mails = [{ ID: "1", To, Subject: "", Text: "", HTML }];
    await serving(mailpitOf(mails), async (address) => {
      assert.equal(await inbox(address).link("ada@example.test", "activate"), url);
    });
  }
});

test("an inbox that is none, or is not there, is named", async () => {
  const nothing = inbox("http://127.0.0.1:9");
  const away = /http:\/\/127\.0\.0\.1:9 cannot be asked/;
  await assert.rejects(nothing.link("ada@example.test", "activate"), {
    reason: "ERR_MAIL_MISSING",
    message: away,
  });
  await serving(
    () => undefined,
    async (address) => {
      const asked = inbox(`${address}/box/`).mail("ada@example.test");
      await assert.rejects(asked, { message: /answers neither as mailroom dev nor as Mailpit/ });
    },
  );
  const mails = () => [{ id: 3, to: "ada@example.test", fault: "the template is missing" }];
  await serving(mails, async (address) => {
    const asked = inbox(address).mail("ada@example.test", "activate");
    await assert.rejects(asked, { message: /could not be written: the template is missing/ });
  });
});

test("an inbox is waited for also where a test has replaced timers and the clock", async () => {
  const program = `
const { inbox } = require("mailroom-verifier/testing");
const { mock } = require("node:test");
let asked = 0;
const json = async () => (asked++ < 2 ? [] : [{ id: 1, link: "https://app.example/" }]);
mock.timers.enable();
inbox("http://127.0.0.1:9", { fetch: async () => ({ ok: true, json }) })
  .link("ada@example.test", "activate", { timeout: ${MINUTE} })
  .then(console.log);`;
  const { stdout, stderr } = await run(process.execPath, ["--eval", program]);
  assert.equal(stdout, "https://app.example/\n", stderr);
});

test("the six actions of the database are those that it signs", async () => {
  const schema = readFileSync(join(repository, "docs/reference/token-format.md"), "utf8");
  assert.match(schema, /\| activate \| 1 \| `\/activate` \|/);
  const links = await createTestLinks();
  const { url } = await links.sign({ action: "change_email" });
  assert.match(url("http://localhost:3000"), /^http:\/\/localhost:3000\/change-email\?token=Ag/);
});

test("the program of the reference passes, as it stands there", async () => {
  const shown = files(readFileSync(join(installed, "REFERENCE.md"), "utf8"));
  const name = "links.test.mjs";
  writeFileSync(join(consumer, name), shown[name]);
  const { status, stdout, stderr } = await run(process.execPath, ["--test", name]);
  assert.equal(status, 0, stdout + stderr);
});
