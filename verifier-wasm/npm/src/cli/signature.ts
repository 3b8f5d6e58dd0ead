import { createHmac, hkdfSync } from "node:crypto";
import { fieldsOf } from "../fields.js";
import type { Action } from "../types.js";

/** The signature that a key makes for a token's secret, by Node's own cryptography; what is wrong shows beside it. */
export function recompute(
  key: Uint8Array,
  token: string,
  action: Action,
  code: string | undefined,
): Uint8Array {
  const { version, secret } = fieldsOf(token);
  if (version === 1) {
    return createHmac("sha256", key)
      .update(`/${action}`)
      .update(secret)
      .update(code ?? "")
      .digest();
  }
  const link = Buffer.from(hkdfSync("sha256", key, "", "mailroom/v2 link", 32));
  const signed = Buffer.from(token, "base64url").subarray(0, 14 + 32);
  return createHmac("sha256", link).update(signed).digest();
}
