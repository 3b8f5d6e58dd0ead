// The keys of one run. Verifiers know all of them from the beginning, current and upcoming, so that
// the signer can move on at any moment and no link is lost: the order of
// docs/operate/rotate-keys.md.

import { createHash, generateKeyPairSync, hkdfSync, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

export type Format = "v1" | "v2" | "v3";

const COUNT = 8;

interface Pair {
  /** `mrsk_…` */
  readonly signing: string;
  /** `mrpk_…` */
  readonly public: string;
}

export class Keys {
  readonly #folder: string;
  readonly #shared = Array.from({ length: COUNT }, () => randomBytes(32).toString("hex"));
  readonly #pairs = Array.from({ length: COUNT }, makePair);
  #current = 0;

  constructor(folder: string) {
    this.#folder = folder;
    this.#write();
  }

  /** Which key signs, counted from 1, and how many there are. */
  get position(): { readonly current: number; readonly count: number } {
    return { current: this.#current + 1, count: COUNT };
  }

  /** What the edge function gets as its secrets. */
  get ofEdge(): { readonly shared: string; readonly public: string } {
    return {
      shared: this.#shared.join(" "),
      public: this.#pairs.map((pair) => pair.public).join(" "),
    };
  }

  /** The file whose first key signs this format. */
  file(format: Format): string {
    return join(this.#folder, format === "v3" ? "signing.keys" : "shared.keys");
  }

  /** The bytes by which v3 tokens name the key that signs now. */
  get publicKeyId(): Buffer {
    const key = Buffer.from(
      this.#pairs[this.#current]?.public.slice("mrpk_".length) ?? "",
      "base64url",
    );
    return createHash("sha256").update("mailroom/v3 key id\0").update(key).digest().subarray(0, 4);
  }

  /** Likewise of v2. */
  get sharedKeyId(): Buffer {
    const key = Buffer.from(this.#shared[this.#current] ?? "", "hex");
    return Buffer.from(hkdfSync("sha256", key, "", "mailroom/v2 key id", 4));
  }

  /** Lets the next key sign, if there is one; whoever reads the files has to be told. */
  advance(): boolean {
    if (this.#current + 1 === COUNT) return false;
    this.#current += 1;
    this.#write();
    return true;
  }

  #write(): void {
    const files = {
      "shared.keys": this.#shared,
      "signing.keys": this.#pairs.map(({ signing }) => signing),
    };
    for (const [name, keys] of Object.entries(files)) {
      const [current = "", ...others] = [
        ...keys.slice(this.#current),
        ...keys.slice(0, this.#current),
      ];
      const lines = ["# The first key signs, the others only verify.", current, ...others];
      const text = `${lines.join("\n")}\n`;
      writeFileSync(join(this.#folder, name), text, { mode: 0o600 });
    }
  }
}

function makePair(): Pair {
  const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  return { signing: `mrsk_${d}`, public: `mrpk_${x}` };
}
