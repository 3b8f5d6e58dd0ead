// The keys of `npx mailroom-verifier`: files of several, and what is no key.

import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { activation, file, OTHER_KEY, verifier } from "./command_line.mjs";
import { consumer } from "./consumer.mjs";

test("every key of a file is tried, and which one fits is said", async () => {
  const other = `# made in May\n\n${OTHER_KEY}\n`;
  const keys = file("keys", `${other}  ${activation.key.toUpperCase()}\r\n#${OTHER_KEY}\n`);
  const args = [activation.token, "--action", "activate"];
  for (const { status, stdout } of [
    await verifier([...args, "--key-file", keys]),
    await verifier(args, { key: "", env: { MAILROOM_KEY_FILE: keys } }),
  ]) {
    assert.match(stdout, /^key {9}2 of 2\nverdict {5}valid$/m);
    assert.equal(status, 0);
  }
  const forged = [`A${activation.token.slice(1)}`, ...args.slice(1), "--key-file", keys];
  const { status, stdout } = await verifier(forged);
  assert.match(stdout, /^signature {3}differs\nverdict {5}not valid/m);
  assert.equal(status, 1);
});

test("a key file that may not be read is said to be so", async () => {
  const keys = file("forbidden", activation.key);
  chmodSync(join(consumer, keys), 0);
  const args = [activation.token, "--action", "activate", "--key-file"];
  const forbidden = await verifier([...args, keys]);
  // The superuser may read every file.
  const permitted = process.getuid?.() === 0;
  assert.equal(
    forbidden.stderr,
    permitted ? "" : "mailroom-verifier: the key file cannot be read: EACCES\n",
  );
  assert.equal(forbidden.status, permitted ? 0 : 2);

  // Nobody can read the beginning of this one, though it can be opened.
  if (process.platform === "linux") {
    const { status, stderr } = await verifier([...args, "/proc/self/mem"]);
    assert.equal(stderr, "mailroom-verifier: the key file cannot be read: EIO\n");
    assert.equal(status, 2);
  }
});

test("keys of v3 in a key file are passed over, and are no keys elsewhere", async () => {
  const { key, token } = activation;
  const args = [token, "--action", "activate"];
  const others = ["mrsk", "mrpk"].map(
    (kind) => `${kind}_${Buffer.from(key, "hex").toString("base64url")}`,
  );
  const mixed = await verifier([
    ...args,
    "--key-file",
    file("mixed", `${[...others, key].join("\n")}\n`),
  ]);
  assert.match(mixed.stdout, /^verdict +valid$/m);
  assert.equal(mixed.status, 0);
  for (const other of others) {
    const inFile = await verifier([...args, "--key-file", file("v3", `${other}\n`)]);
    assert.equal(
      inFile.stderr,
      "mailroom-verifier: the key file has no shared key; write one a line\n",
    );
    const { stderr, stdout, status } = await verifier(args, { key: other });
    assert.match(stderr, /^mailroom-verifier: MAILROOM_SECRET_KEY is no key: /);
    assert.ok(!stderr.includes(other.slice(5, 30)), stderr);
    assert.equal(stdout, "");
    assert.deepEqual([inFile.status, status], [2, 2]);
  }
});

test("a key of another form is refused and not shown", async () => {
  const { key, token } = activation;
  const bytes = Buffer.from(key, "hex");
  for (const form of [
    bytes.toString("base64"),
    `0x${key}`,
    `\ufeff${key}`,
    `${key} ${key}`,
    `"${key}"`,
    token,
  ]) {
    const args = [token, "--action", "activate"];
    for (const { status, stdout, stderr } of [
      await verifier(args, { key: form }),
      await verifier([...args, "--key-file", file("other-form", `${form}\n`)]),
    ]) {
      assert.match(
        stderr,
        /^mailroom-verifier: (?:MAILROOM_SECRET_KEY|line 1 of the key file) is no key: /,
      );
      assert.ok(!stderr.includes(form.slice(5, 30)), stderr);
      assert.equal(stdout, "");
      assert.equal(status, 2);
    }
  }
});
