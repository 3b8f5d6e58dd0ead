// A site on node:http whose pages are the handler's, its database a list,
// and its tokens of its own key.

import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

import { KEPT_OPEN } from "../waiting.mjs";

const CODE = "31943";
const KEY = randomBytes(32);

/** The keys of v2 (docs/reference/token-format.md), made from the shared key. */
const derived = (info, length) =>
  Buffer.from(hkdfSync("sha256", KEY, "", `mailroom/v2 ${info}`, length));

/**
 * A fresh link of v2 that is valid for an hour, or for so many seconds; bound to a browser where
 * its 16 bytes are given.
 */
export function newLink(action, lifetime = 3600, binding = Buffer.alloc(0)) {
  const number = { activate: 1, recover: 2 }[action];
  const header = Buffer.alloc(14);
  header.set([2, number | (binding.length > 0 ? 0x80 : 0), ...derived("key id", 4)]);
  header.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 1000) + lifetime), 6);
  const secret = randomBytes(32);
  const sign = (key, ...parts) => createHmac("sha256", key).update(Buffer.concat(parts)).digest();
  const signed = [header, binding, secret];
  const parts = [...signed, sign(derived("link", 32), ...signed)];
  if (number === 2)
    parts.push(sign(derived("code", 32), ...signed, Buffer.from(CODE)).subarray(0, 15));
  return {
    token: Buffer.concat(parts).toString("base64url"),
    code: CODE,
    secret: secret.toString("hex"),
  };
}

export const key = KEY.toString("hex");

/**
 * Serves a listener of Node's on this machine; `use` gets its address and every request that came.
 */
export async function listening(listener, use) {
  const asked = [];
  const server = createServer(KEPT_OPEN, (request, response) => {
    asked.push({ method: request.method, url: request.url, headers: request.headers });
    listener(request, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use(`http://127.0.0.1:${server.address().port}`, asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** What an application's database does: uses a secret once, and says so. */
export class Database {
  used = [];
  answer = "ok";

  redeem = async ({ secret }) => {
    const name = Buffer.from(secret).toString("hex");
    if (this.answer === "throws") throw new Error("no connection");
    if (this.answer !== "ok") return this.answer;
    if (this.used.includes(name)) return "used";
    this.used.push(name);
    return "ok";
  };
}
