// What importing the package and verifying a first token add to the start of Node:
// `node start.mjs --tarball=FILE --folder=FOLDER [--json]`. FOLDER is made anew.
//
// Whole processes, in turns with one that runs an empty script.

import { spawnSync } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { join } from "node:path";

import { write } from "../runtimes/consumer.mjs";
import { prepare } from "./command_line.mjs";
import { median } from "./median.mjs";

const ROUNDS = 101;

const { consumer, json } = prepare();

const key = randomBytes(32);
const secret = randomBytes(32);
const token = Buffer.concat([secret, createHmac("sha256", key).update("/activate").update(secret).digest()]);

write(consumer, "empty.mjs", "");
write(
  consumer,
  "first.mjs",
  `import { createVerifier } from "mailroom-verifier";
const verifier = createVerifier({ keys: process.env.MAILROOM_SECRET_KEY });
verifier.verify(${JSON.stringify(token.toString("base64url"))}, { action: "activate" });
`,
);

const samples = { "empty.mjs": [], "first.mjs": [] };
for (let round = -5; round < ROUNDS; round += 1) {
  for (const [script, times] of Object.entries(samples)) {
    const time = milliseconds(script);
    if (round >= 0) {
      times.push(time);
    }
  }
}

const ms = { empty: round(median(samples["empty.mjs"])), first_verification: round(median(samples["first.mjs"])) };
const over_empty = round(ms.first_verification - ms.empty);
if (json) {
  console.log(JSON.stringify({ ms, over_empty }));
} else {
  console.log(`a new process, median of ${ROUNDS} on Node ${process.versions.node}`);
  console.log(`  empty script                        ${ms.empty.toFixed(2)} ms`);
  console.log(`  import and first verification       ${ms.first_verification.toFixed(2)} ms`);
  console.log(`  difference                          ${over_empty.toFixed(2)} ms`);
}

function milliseconds(script) {
  const started = process.hrtime.bigint();
  const { status, stderr } = spawnSync(process.execPath, [join(consumer, script)], {
    cwd: consumer,
    env: { ...process.env, MAILROOM_SECRET_KEY: key.toString("hex") },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const elapsed = Number(process.hrtime.bigint() - started) / 1e6;
  if (status !== 0) {
    throw new Error(`${script} failed: ${stderr}`);
  }
  return elapsed;
}

function round(value) {
  return Math.round(value * 100) / 100;
}
