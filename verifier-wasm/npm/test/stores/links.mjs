// Fresh links of v2, signed by node:crypto as docs/reference/token-format.md says.

import { createHash, createHmac, hkdfSync, randomBytes } from "node:crypto";

const LIFETIME = 900;

/**
 * A link of each action under one fresh key, and one that is bound to a browser:
 * `{ key, code, activation, recovery, bound, nonce }`.
 */
export function freshLinks() {
  const key = randomBytes(32);
  const code = "04711";
  const nonce = randomBytes(32).toString("base64url");
  const binding = createHash("sha256")
    .update(`mailroom/browser\0${nonce}`)
    .digest()
    .subarray(0, 16);
  return {
    key: key.toString("hex"),
    code,
    activation: sign(key, 1, randomBytes(32)),
    recovery: sign(key, 2, randomBytes(32), code),
    bound: sign(key, 0x81, Buffer.concat([binding, randomBytes(32)])),
    nonce,
  };
}

/**
 * Signs an activation (1), or a recovery (2) with its code. Of a bound one the binding stands
 * before the secret.
 */
export function sign(key, action, secret, code) {
  const derived = (info, length) => Buffer.from(hkdfSync("sha256", key, "", info, length));
  const expiresAt = Buffer.alloc(8);
  expiresAt.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 1000) + LIFETIME));
  const header = Buffer.concat([
    Buffer.from([2, action]),
    derived("mailroom/v2 key id", 4),
    expiresAt,
  ]);
  const tag = (info, ...parts) =>
    createHmac("sha256", derived(info, 32)).update(Buffer.concat(parts)).digest();
  const parts = [header, secret, tag("mailroom/v2 link", header, secret)];
  if (code !== undefined) {
    parts.push(tag("mailroom/v2 code", header, secret, Buffer.from(code)).subarray(0, 15));
  }
  return Buffer.concat(parts).toString("base64url");
}
