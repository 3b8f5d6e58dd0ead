// Keys of a test, and tokens by `mailroom sign`.

import { execFileSync } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export class Signer {
  secretKeys = [randomBytes(32).toString("hex"), randomBytes(32).toString("hex")];
  publicKeys;
  #program;
  #files;

  constructor(program, folder) {
    const { d, x } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
    this.publicKeys = [`mrpk_${x}`];
    this.#program = program;
    mkdirSync(folder, { recursive: true });
    const [shared, signing] = [join(folder, "shared.keys"), join(folder, "signing.keys")];
    writeFileSync(shared, `${this.secretKeys.join("\n")}\n`, { mode: 0o600 });
    writeFileSync(signing, `mrsk_${d}\n`, { mode: 0o600 });
    this.#files = { v1: shared, v2: shared, v3: signing };
  }

  /** A token of a random secret, valid for 15 minutes. */
  token(format, action, code) {
    const options = ["sign", "--action", action, "--token-format", format];
    if (action === "invite") options.push("--further-action", "invite=4:/invite:0");
    if (code !== undefined) options.push("--code", code);
    const env = { MAILROOM_KEY_FILE: this.#files[format] };
    return execFileSync(this.#program, options, { env, encoding: "utf8" }).trim();
  }
}
