// What a verification of v3 takes, by the platform's Ed25519 and by the module, beside node:crypto
// alone and jose, in turns in one process.

import { createHash, generateKeyPairSync, randomBytes, sign, verify } from "node:crypto";

import { SignJWT, importSPKI, jwtVerify } from "jose";

import { median } from "./median.mjs";

/**
 * In a round: about a millisecond of the slowest, so that most rounds are not interrupted
 * on a busy machine either.
 */
const LINKS = 8;
const ROUNDS = 1000;
const WARM_UP = 200;

/** Nanoseconds for one of each, by name, and what checks signatures here. */
export async function publicKeys({ createVerifier }) {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const keys = new Uint8Array(publicKey.export({ format: "der", type: "spki" }).subarray(-32));
  const id = createHash("sha256")
    .update("mailroom/v3 key id\0")
    .update(keys)
    .digest()
    .subarray(0, 4);
  const signed = Array.from({ length: LINKS }, () => {
    const header = Buffer.from([3, 1, ...id, ...new Uint8Array(8)]);
    header.writeUIntBE(Math.floor(Date.now() / 1000) + 86_400, 8, 6);
    const message = Buffer.concat([Buffer.from("mailroom/v3 link\0"), header, randomBytes(32)]);
    return { message, signature: sign(null, message, privateKey) };
  });
  const links = signed.map(({ message, signature }) =>
    Buffer.concat([message.subarray(17), signature]).toString("base64url"),
  );
  const webTokens = await Promise.all(
    links.map((secret) =>
      new SignJWT({ action: "activate", secret })
        .setProtectedHeader({ alg: "EdDSA" })
        .sign(privateKey),
    ),
  );
  const webKey = await importSPKI(publicKey.export({ format: "pem", type: "spki" }), "EdDSA");
  const verifier = createVerifier({ keys });
  const bare = createVerifier({ keys, signatures: "webassembly" });
  const { signatures } = verifier;
  const judge = (verifier) => () =>
    links.every((link) => verifier.tryVerify(link, { action: "activate" }).ok);
  const contestants = {
    v3: judge(verifier),
    v3_webassembly: judge(bare),
    v3_node_crypto: () =>
      signed.every(({ message, signature }) => verify(null, message, publicKey, signature)),
    async v3_jose() {
      for (const token of webTokens) await jwtVerify(token, webKey, { algorithms: ["EdDSA"] });
      return true;
    },
  };
  const samples = Object.fromEntries(Object.keys(contestants).map((name) => [name, []]));
  for (let turn = 0; turn < ROUNDS + WARM_UP; turn += 1) {
    for (const [name, run] of Object.entries(contestants)) {
      const started = process.hrtime.bigint();
      const accepted = await run();
      const nanoseconds = Number(process.hrtime.bigint() - started) / LINKS;
      if (accepted !== true) throw new Error(`${name} refused something genuine`);
      if (turn >= WARM_UP) samples[name].push(nanoseconds);
    }
  }
  const ns = Object.fromEntries(
    Object.entries(samples).map(([name, times]) => [name, median(times)]),
  );
  return { signatures, ns };
}
