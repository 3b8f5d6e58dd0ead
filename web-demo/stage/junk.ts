// Links that must not get through: forged, expired, used.

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { promisify } from "node:util";

import type { Format, Keys } from "./keys.ts";
import type { Setting } from "./setting.ts";

const EXPIRED_FOR = 60;

export class Junk {
  readonly #setting: Setting;
  readonly #keys: Keys;

  constructor(setting: Setting, keys: Keys) {
    this.#setting = setting;
    this.#keys = keys;
  }

  /** As long as a genuine one, names the right key, and is signed by nobody. */
  forged(format: Exclude<Format, "v1">, action: "activate" | "recover"): string {
    const header = Buffer.alloc(14);
    header.set([format === "v3" ? 3 : 2, action === "recover" ? 2 : 1]);
    header.set(format === "v3" ? this.#keys.publicKeyId : this.#keys.sharedKeyId, 2);
    header.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 1000) + 900), 6);
    const signature = randomBytes(format === "v3" ? 64 : action === "recover" ? 47 : 32);
    // Below the order of the curve, so that it is refused for being wrong and not
    // for how it is written.
    if (format === "v3") signature[63] = (signature[63] ?? 0) & 0x0f;
    return Buffer.concat([header, randomBytes(32), signature]).toString("base64url");
  }

  /** As a mail program breaks it, or a scanner makes it up. */
  malformed(): string {
    return randomBytes(30 + Math.floor(Math.random() * 100)).toString("base64url");
  }

  /** Genuine, by the key that signs now, and over. */
  async expired(format: Exclude<Format, "v1">): Promise<string> {
    const expiry = Math.floor(Date.now() / 1000) - EXPIRED_FOR;
    const sign = [
      "sign",
      "--action",
      "activate",
      "--token-format",
      format,
      "--expires-at",
      String(expiry),
    ];
    const { stdout } = await promisify(execFile)(this.#setting.mailroom, sign, {
      env: { MAILROOM_KEY_FILE: this.#keys.file(format) },
    });
    return stdout.trim();
  }
}
