// `npx mailroom-verifier` as the consumer has installed it, and links for it.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { consumer, genuine, run } from "./consumer.mjs";

export const PROGRAM = join(consumer, "node_modules/.bin/mailroom-verifier");
export const activation = genuine.find(({ action }) => action === "activate");
export const recovery = genuine.find(({ action }) => action === "recover");
export const OTHER_KEY = "ab".repeat(32);

/** Runs it with the key of the activation, unless another one is given. */
export function verifier(args, { key = activation.key, env, ...options } = {}) {
  return run(PROGRAM, args, { ...options, env: { MAILROOM_SECRET_KEY: key, ...env } });
}

/** A link of the activation's key whose token begins with `start`. */
export function activationThatBeginsWith(start) {
  const secret = Buffer.concat([
    Buffer.from(start.padEnd(4, "A"), "base64url"),
    Buffer.alloc(29, 7),
  ]);
  const key = Buffer.from(activation.key, "hex");
  const tag = createHmac("sha256", key).update("/activate").update(secret).digest();
  const token = Buffer.concat([secret, tag]).toString("base64url");
  assert.ok(token.startsWith(start));
  return token;
}

/** Whether each token of an output is valid. */
export function verdicts(stdout) {
  return stdout.match(/^verdict {5}(not )?valid/gm).map((line) => !line.includes("not"));
}

/** Writes a file beside the consumer's, and returns its name. */
export function file(name, content) {
  writeFileSync(join(consumer, name), content);
  return name;
}
