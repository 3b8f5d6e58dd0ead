// `npx mailroom-verifier -`: the lines of standard input, and streams that are closed, full or
// without an end.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import {
  activation,
  activationThatBeginsWith,
  PROGRAM,
  recovery,
  verdicts,
  verifier,
} from "./command_line.mjs";
import { consumer, run } from "./consumer.mjs";

test("standard input is judged line by line, and one bad line makes the status 1", async () => {
  const dashed = activationThatBeginsWith("-");
  const args = ["-", "--action", "activate"];
  const good = await verifier(args, { input: `${activation.token}\n${dashed}\r\n${dashed}` });
  assert.deepEqual(verdicts(good.stdout), [true, true, true]);
  assert.equal(good.stdout.split("\n\n").length, 3);
  assert.equal(good.status, 0);

  const bad = await verifier(args, { input: `${activation.token}\n\n${dashed}\n` });
  assert.deepEqual(verdicts(bad.stdout), [true, false, true]);
  assert.equal(bad.status, 1);
});

test("a line of standard input may carry its code", async () => {
  const { token, code, key } = recovery;
  const input = `${token} ${code}\n${token} 99999x\n${token}\n${token}  ${code}\n`;
  const { status, stdout } = await verifier(["-", "--action", "recover", "--code", code], {
    key,
    input,
  });
  assert.deepEqual(verdicts(stdout), [true, false, true, false]);
  assert.equal(status, 1);
});

test("a line that is too long is counted and not kept, and the next one is judged", async () => {
  const input = `${activation.token}${"A".repeat(10_000_000)}\n${activation.token}\n`;
  const { status, stdout } = await verifier(["-", "--action", "activate"], { input });
  assert.match(stdout, /^verdict {5}not valid: ERR_TOKEN_MALFORMED: it has 10000086 characters, /);
  assert.deepEqual(verdicts(stdout), [false, true]);
  assert.equal(status, 1);
});

test("bytes that are no text are lines that are no token", async () => {
  const noise = Buffer.from(
    Array.from({ length: 70_000 }, (_, index) => (index * index + 7 * index) & 0xff),
  );
  const input = Buffer.concat([
    noise,
    Buffer.from(`\n\ufeff${activation.token}\n${activation.token}\0\n`),
  ]);
  const { status, stdout, stderr } = await verifier(["-", "--action", "activate"], { input });
  assert.equal(stderr, "");
  const found = verdicts(stdout);
  assert.equal(found.length, input.toString("latin1").split("\n").length - 1);
  assert.ok(!found.includes(true));
  // Nothing of what came in goes out: a terminal would obey it.
  assert.match(stdout, /^[\x20-\x7e\n]*$/);
  assert.equal(status, 1);
});

test("a line without an end needs no more memory than a short one", async () => {
  const input = `{ echo ${activation.token}; head -c 200000000 /dev/zero | tr '\\0' A; }`;
  const env = { MAILROOM_SECRET_KEY: activation.key, NODE_OPTIONS: "--max-old-space-size=32" };
  const { status, stdout } = await run("sh", ["-c", `${input} | ${PROGRAM} - --action activate`], {
    env,
  });
  assert.match(stdout, /it has 200000000 characters, /);
  assert.deepEqual(verdicts(stdout), [true, false]);
  assert.equal(status, 1);
});

test("a code that is too long leaves the length of its token alone", async () => {
  const input = `${activation.token.slice(1)} ${"1".repeat(100_000)}\n`;
  const { stdout } = await verifier(["-", "--action", "recover"], { input });
  assert.match(stdout, /ERR_TOKEN_MALFORMED: it has 85 characters/);
});

test("streams that are closed, full or none end the program with a status for that", async () => {
  const judged = `${PROGRAM} ${activation.token} --action activate`;
  const read = `echo ${activation.token} | ${PROGRAM} - --action activate`;
  const empty = "there is no token on standard input; write one a line";
  for (const [command, status, stderr] of [
    [`${judged} >&-`, 0, ""],
    [`${judged} 2>&- >/dev/null`, 0, ""],
    [`${judged} </dev/null >/dev/null`, 0, ""],
    [`${read} >&-`, 0, ""],
    [`${PROGRAM} - --action activate <&-`, 2, `mailroom-verifier: ${empty}\n`],
    [`${PROGRAM} - --action activate </dev/null`, 2, `mailroom-verifier: ${empty}\n`],
    [`${PROGRAM} - --action activate <.`, 2, `mailroom-verifier: ${empty}\n`],
    ...(process.platform === "linux"
      ? [
          // It can be opened, and its beginning is nothing.
          [
            `${PROGRAM} - --action activate </proc/self/mem`,
            2,
            "mailroom-verifier: standard input cannot be read: EIO\n",
          ],
          [
            `${judged} >/dev/full`,
            2,
            "mailroom-verifier: standard output cannot be written: ENOSPC\n",
          ],
          [`${PROGRAM} 2>/dev/full`, 2, ""],
        ]
      : []),
  ]) {
    const ended = await run("sh", ["-c", command], {
      env: { MAILROOM_SECRET_KEY: activation.key },
    });
    assert.deepEqual(ended, { status, stdout: "", stderr }, command);
  }
});

test("a reader that stops ends the program", async () => {
  const judged = `yes ${activation.token} | ${PROGRAM} - --action activate`;
  const pipe = `{ ${judged}; echo $? >status; } | head -n 1`;
  const { stdout, stderr } = await run("sh", ["-c", pipe], {
    env: { MAILROOM_SECRET_KEY: activation.key },
  });
  assert.equal(stderr, "");
  assert.equal(stdout, `secret      ${activation.secret}\n`);
  assert.equal(readFileSync(join(consumer, "status"), "utf8"), "2\n");
});
