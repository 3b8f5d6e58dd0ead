// `npx mailroom-verifier`: what it shows of a link, and how it ends.

import assert from "node:assert/strict";
import { createHmac, hkdfSync } from "node:crypto";
import { test } from "node:test";

import {
  activation,
  activationThatBeginsWith,
  file,
  OTHER_KEY,
  PROGRAM,
  recovery,
  verdicts,
  verifier,
} from "./command_line.mjs";
import { genuine, run } from "./consumer.mjs";

/** The signature of a token of v1, as it may be written. */
function signature(token) {
  const tag = Buffer.from(token, "base64url").subarray(32);
  return ["hex", "base64", "base64url"].map((encoding) => tag.toString(encoding));
}

test("a genuine link is shown in its parts, and the status is 0", async () => {
  for (const { token, code, action, key, secret } of genuine) {
    const args = [token, "--action", action, ...(code === null ? [] : ["--code", code])];
    const { status, stdout, stderr } = await verifier(args, { key });
    assert.equal(stderr, "");
    assert.equal(stdout, `secret      ${secret}\nsignature   matches\nverdict     valid\n`);
    assert.equal(status, 0);
  }
});

test("a forged link differs in its signature, and the status is 1", async () => {
  const forged = `${activation.token.slice(0, 50)}AAAA${activation.token.slice(54)}`;
  const { status, stdout } = await verifier([forged, "--action=activate"]);
  assert.ok(stdout.startsWith(`secret      ${activation.secret}\nsignature   differs\n`));
  assert.match(stdout, /^verdict {5}not valid: ERR_TOKEN_SIGNATURE: /m);
  assert.equal(status, 1);
});

test("no report holds a signature that is valid, whatever was asked", async () => {
  for (const { token, code, action, key } of genuine) {
    const forged = `${token.slice(0, 50)}AAAA${token.slice(54)}`;
    const asked = ["--action", action, ...(code === null ? [] : ["--code", code])];
    for (const [given, options] of [
      [[token, ...asked], { key }],
      [[forged, ...asked], { key }],
      [[token, ...asked], { key: OTHER_KEY }],
      [[token, "--action", action === "activate" ? "recover" : "activate"], { key }],
    ]) {
      const { stdout, stderr } = await verifier(given, options);
      for (const spelt of signature(token)) assert.ok(!(stdout + stderr).includes(spelt), stdout);
    }
  }
});

test("a link of another action, another key or another code is not valid", async () => {
  const { token, code, key } = recovery;
  const wrong = code === "00000" ? "00001" : "00000";
  for (const [args, given] of [
    [["--action", "activate"], key],
    [["--action", "recover", "--code", code], OTHER_KEY],
    [["--action", "recover", "--code", wrong], key],
  ]) {
    const { status, stdout } = await verifier([token, ...args], { key: given });
    assert.match(stdout, /^verdict {5}not valid: ERR_TOKEN_SIGNATURE: /m);
    assert.equal(status, 1);
  }
});

test("a code that is missing, malformed or uncheckable is named", async () => {
  for (const [link, code, error] of [
    [recovery, [], "ERR_CODE_REQUIRED"],
    [recovery, ["--code="], "ERR_CODE_MALFORMED"],
    [recovery, ["--code", "-1234"], "ERR_CODE_MALFORMED"],
    [activation, ["--code", "12345"], "ERR_CODE_UNCHECKABLE"],
  ]) {
    const args = [link.token, "--action", link.action, ...code];
    const { status, stdout } = await verifier(args, { key: link.key });
    assert.match(stdout, new RegExp(`^verdict     not valid: ${error}: `, "m"));
    assert.doesNotMatch(stdout, /^signature/m);
    assert.equal(status, 1);
  }
});

test("what is malformed about a text that is no token is said", async () => {
  const { token } = activation;
  const alphabet = "and only A to Z, a to z, 0 to 9, - and _ stand in a token";
  for (const [text, fault] of [
    [
      "",
      "it has 0 characters, and a token has 86 (version 1), 104, 124, 126 or 146 (2), " +
        "or 147 or 168 (3)",
    ],
    [
      token.slice(1),
      "it has 85 characters, and a token has 86 (version 1), 104, 124, 126 or 146 (2), " +
        "or 147 or 168 (3)",
    ],
    [
      `${token}==`,
      "it has 88 characters, and a token has 86 (version 1), 104, 124, 126 or 146 (2), " +
        "or 147 or 168 (3)",
    ],
    [`${token.slice(0, 20)}+${token.slice(21)}`, `its character 21 is U+002B, ${alphabet}`],
    [`${token.slice(0, 84)}😀`, `its character 85 is U+1F600, ${alphabet}`],
    [
      `${token.slice(0, 85)}B`,
      "its last character is none of A, Q, g and w, the only ones without surplus bits",
    ],
  ]) {
    const { status, stdout } = await verifier(["--action", "activate", "--", text]);
    assert.equal(stdout, `verdict     not valid: ERR_TOKEN_MALFORMED: ${fault}\n`);
    assert.equal(status, 1);
  }
});

test("a token that begins with dashes is taken for one, in every place", async () => {
  for (const start of ["-h", "--", "--ac", "-A"]) {
    const token = activationThatBeginsWith(start);
    for (const args of [
      [token, "--action", "activate"],
      ["--action", "activate", token],
      ["--action=activate", "--", token],
    ]) {
      const { status, stdout, stderr } = await verifier(args);
      assert.equal(stderr, "");
      assert.deepEqual(verdicts(stdout), [true]);
      assert.equal(status, 0);
    }
  }
});

test("a call without a verdict ends with 2 and a sentence without key or token", async () => {
  const { token, key } = activation;
  const args = [token, "--action", "activate"];
  const noKey = "is no key: a shared key is 64 hexadecimal characters";
  for (const [given, options, message] of [
    [[], {}, "there is no token; see --help"],
    [[token], {}, "--action must be activate or recover: what the link is about to do"],
    [
      [token, "--action", "Activate"],
      {},
      "--action must be activate or recover: what the link is about to do",
    ],
    [[token, ...args], {}, "TOKEN is given twice"],
    [["--action", "activate", "--", token, token], {}, "TOKEN is given twice"],
    [[...args, "--action", "recover"], {}, "--action is given twice"],
    [[...args, "--code"], {}, "--code needs a value; see --help"],
    [[...args, "--key", key], {}, "there is an option that is not known; see --help"],
    [[...args, "-v"], {}, "there is an option that is not known; see --help"],
    [
      args,
      { key: "" },
      "there is no key; set MAILROOM_SECRET_KEY, or name a file that holds one with --key-file",
    ],
    [args, { key: key.slice(1) }, `MAILROOM_SECRET_KEY ${noKey}`],
    [args, { key: `${key}\n` }, `MAILROOM_SECRET_KEY ${noKey}`],
    [
      args,
      { env: { MAILROOM_KEY_FILE: "keys" } },
      "MAILROOM_SECRET_KEY and MAILROOM_KEY_FILE are both set; unset one",
    ],
    [[...args, "--key-file", "missing"], {}, "the key file cannot be read: ENOENT"],
    [[...args, "--key-file", "."], {}, "the key file cannot be read: EISDIR"],
    [
      [...args, "--key-file", "/dev/zero"],
      {},
      "the key file is longer than 65536 bytes; it holds one key a line and nothing else",
    ],
    [
      [...args, "--key-file", file("empty", "# nothing\n")],
      {},
      "the key file has no shared key; write one a line",
    ],
    [
      [...args, "--key-file", file("bad", `${key}\n\n${key}0\n`)],
      {},
      `line 3 of the key file ${noKey}`,
    ],
    [["-", "--action", "activate"], {}, "there is no token on standard input; write one a line"],
  ]) {
    const { status, stdout, stderr } = await verifier(given, options);
    assert.equal(stderr, `mailroom-verifier: ${message}\n`);
    assert.equal(stdout, "");
    assert.equal(status, 2);
  }
});

/** A link of v2, of an action without a code, that does not end in this century. */
function linkOfAction(number) {
  const derived = (info, length) =>
    Buffer.from(
      hkdfSync("sha256", Buffer.from(activation.key, "hex"), "", `mailroom/v2 ${info}`, length),
    );
  const expiry = Buffer.alloc(8);
  expiry.writeBigUInt64BE(4_102_444_800n);
  const secret = Buffer.alloc(32, 7);
  const signed = Buffer.concat([Buffer.from([2, number]), derived("key id", 4), expiry, secret]);
  const tag = createHmac("sha256", derived("link", 32)).update(signed).digest();
  return Buffer.concat([signed, tag]).toString("base64url");
}

test("further actions are named on the command line", async () => {
  const invite = "--further-action=invite=4:/invite:0";
  const other = ["--further-action", "change_email=3:/account/email:6"];
  for (const [args, status, said] of [
    [["--action", "invite", invite], 0, /^verdict {5}valid$/m],
    [["--action", "invite", ...other, invite], 0, /^verdict {5}valid$/m],
    [["--action", "activate", invite], 1, /not valid: ERR_TOKEN_ACTION/],
    [["--action", "activate", ...other], 1, /not valid: ERR_TOKEN_MALFORMED/],
    [["--action", "invite", ...other], 2, /--action must be activate or recover or change_email/],
    [["--action", "invite", invite, invite], 2, /defines invite twice/],
    [["--action", "invite", "--further-action", "invite=4:/invite"], 2, /NAME=NUMBER:PATH:DIGITS/],
    [["--action", "invite", "--further-action", "invite=4:/invite:4"], 2, /invite\.digits is 0/],
    [["--action", "invite", "--further-action", "__proto__=4:/invite:0"], 2, /--further-action: /],
  ]) {
    const found = await verifier([linkOfAction(4), ...args]);
    assert.match(found.stdout + found.stderr, said);
    assert.equal(found.status, status, args.join(" "));
  }
});

test("help and version are printed, whatever else is said", async () => {
  const help = await verifier(["--help"], { key: "" });
  assert.match(help.stdout, /^Usage: mailroom-verifier TOKEN --action activate\|recover/);
  assert.equal(help.status, 0);
  const version = await verifier([activation.token, "--version"], { key: "" });
  assert.match(version.stdout, /^mailroom-verifier \d+\.\d+\.\d+\n$/);
  assert.equal(version.status, 0);
});

test("where WebAssembly is switched off the status is 2, not that of a forged token", async () => {
  const args = ["--jitless", PROGRAM, activation.token, "--action", "activate"];
  const env = { MAILROOM_SECRET_KEY: activation.key };
  const { status, stdout, stderr } = await run(process.execPath, args, { env });
  assert.match(stderr, /^mailroom-verifier: WebAssembly cannot be started/m);
  assert.ok(!stderr.includes(activation.token) && !stderr.includes(activation.key));
  assert.equal(stdout, "");
  assert.equal(status, 2);
});

test("npx finds the program", async () => {
  const args = ["--no-install", "mailroom-verifier", activation.token, "--action", "activate"];
  const { status, stdout } = await run("npx", args, {
    env: { MAILROOM_SECRET_KEY: activation.key },
  });
  assert.deepEqual(verdicts(stdout), [true]);
  assert.equal(status, 0);
});

test("a bound link is genuine for its browser alone, whatever its code", async () => {
  const key = Buffer.from(activation.key, "hex");
  const derive = (info, length) => Buffer.from(hkdfSync("sha256", key, "", info, length));
  const tag = (info, ...parts) =>
    createHmac("sha256", derive(info, 32)).update(Buffer.concat(parts)).digest();
  const binding = Buffer.alloc(16, 0xb1);
  const expiry = Buffer.alloc(8);
  expiry.writeBigUInt64BE(253_402_300_799n);
  const signed = (action) =>
    Buffer.concat([
      Buffer.from([2, 0x80 | action]),
      derive("mailroom/v2 key id", 4),
      expiry,
      binding,
      Buffer.alloc(32, 7),
    ]);
  const [one, two] = [signed(1), signed(2)];
  const activate = Buffer.concat([one, tag("mailroom/v2 link", one)]).toString("base64url");
  const code = tag("mailroom/v2 code", two, Buffer.from("01234")).subarray(0, 15);
  const recover = Buffer.concat([two, tag("mailroom/v2 link", two), code]).toString("base64url");
  const hex = binding.toString("hex");
  for (const [args, verdict] of [
    [[activate, "--action=activate", "--binding", hex], "valid"],
    [[activate, "--action=activate", `--binding=${hex.toUpperCase()}`], "valid"],
    [
      [activate, "--action=activate", `--binding=${"b2".repeat(16)}`],
      "not valid: ERR_TOKEN_OTHER_BROWSER",
    ],
    [[activate, "--action=activate"], "not valid: ERR_TOKEN_OTHER_BROWSER"],
    [[activate, "--action=recover", "--binding", hex], "not valid: ERR_TOKEN_ACTION"],
    [[recover, "--action=recover", "--code=01234", "--binding", hex], "valid"],
    [
      [recover, "--action=recover", "--code=01235", "--binding", hex],
      "not valid: ERR_CODE_MISMATCH",
    ],
    [[recover, "--action=recover", "--code=01234"], "not valid: ERR_TOKEN_OTHER_BROWSER"],
    [[recover, "--action=recover", "--code=x"], "not valid: ERR_TOKEN_OTHER_BROWSER"],
  ]) {
    const { status, stdout, stderr } = await verifier(args);
    assert.ok(stdout.includes(`verdict     ${verdict}`), `${args.slice(1)}: ${stdout}${stderr}`);
    assert.ok(stdout.includes(`binding     ${hex}\n`), stdout);
    assert.equal(status, verdict === "valid" ? 0 : 1);
  }
  const { status, stdout } = await verifier([
    activation.token,
    "--action=activate",
    "--binding",
    hex,
  ]);
  assert.deepEqual([status, stdout.includes("binding")], [0, false]);
  for (const wrong of ["", "b1", hex.slice(1), `${hex}b1`, "g".repeat(32)]) {
    const { status, stdout, stderr } = await verifier([
      activate,
      "--action=activate",
      `--binding=${wrong}`,
    ]);
    assert.deepEqual([status, stdout], [2, ""]);
    assert.equal(stderr, "mailroom-verifier: --binding must be 32 hexadecimal characters\n");
  }
});
