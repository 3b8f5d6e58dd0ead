// Five ways to find out whether a link is genuine,
// each with its key prepared as its documentation advises.
//
// A contestant has `tokens` and `count(texts)`, which returns how many of the texts it accepts.
// Every `ALTERED_EVERY`th token is `forged`.

import { createHmac, createSecretKey, randomBytes, timingSafeEqual, webcrypto } from "node:crypto";

import { SignJWT, jwtVerify } from "jose";

import { native } from "./native.mjs";

const TOKENS = 1024;

/** The first of so many tokens is forged. */
export const ALTERED_EVERY = 128;

const { subtle } = webcrypto;
const PATH = Buffer.from("/activate");

/**
 * Tokens of one key for all contestants: links as this project signs them, and the same secrets as
 * JSON Web Tokens.
 */
export async function contestants(verifierPackage) {
  const key = randomBytes(32);
  const secrets = Array.from({ length: TOKENS }, () => randomBytes(32));
  const links = secrets.map((secret) => {
    const tag = createHmac("sha256", key).update(PATH).update(secret).digest();
    return Buffer.concat([secret, tag]).toString("base64url");
  });
  const hmacKey = await subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
    "verify",
  ]);
  const webTokens = await Promise.all(
    secrets.map((secret) =>
      new SignJWT({ action: "activate", secret: secret.toString("base64url") })
        .setProtectedHeader({ alg: "HS256" })
        .sign(hmacKey),
    ),
  );
  const tokens = links.map(alterSome);
  return {
    mailroom: { tokens: [...tokens], count: mailroom(verifierPackage, key) },
    node_crypto: { tokens: [...tokens], count: nodeCrypto(key) },
    webcrypto: { tokens: [...tokens], count: webCrypto(hmacKey) },
    jose: { tokens: webTokens.map(alterSome), count: jose(hmacKey) },
    native: native(
      key,
      tokens.map(({ text }) => text),
    ),
  };
}

function mailroom({ createVerifier }, key) {
  const verifier = createVerifier({ keys: key.toString("hex") });
  return (tokens) => {
    let accepted = 0;
    for (const token of tokens) {
      if (verifier.tryVerify(token, { action: "activate" }).ok) {
        accepted += 1;
      }
    }
    return accepted;
  };
}

function nodeCrypto(key) {
  const secretKey = createSecretKey(key);
  return (tokens) => {
    let accepted = 0;
    for (const token of tokens) {
      const bytes = Buffer.from(token, "base64url");
      const tag = createHmac("sha256", secretKey)
        .update(PATH)
        .update(bytes.subarray(0, 32))
        .digest();
      if (bytes.length === 64 && timingSafeEqual(tag, bytes.subarray(32))) {
        accepted += 1;
      }
    }
    return accepted;
  };
}

function webCrypto(hmacKey) {
  return async (tokens) => {
    let accepted = 0;
    const signed = Buffer.alloc(PATH.length + 32);
    PATH.copy(signed);
    for (const token of tokens) {
      const bytes = Buffer.from(token, "base64url");
      bytes.copy(signed, PATH.length, 0, 32);
      if (await subtle.verify("HMAC", hmacKey, bytes.subarray(32), signed)) {
        accepted += 1;
      }
    }
    return accepted;
  };
}

function jose(hmacKey) {
  const options = { algorithms: ["HS256"] };
  return async (tokens) => {
    let accepted = 0;
    for (const token of tokens) {
      try {
        await jwtVerify(token, hmacKey, options);
        accepted += 1;
      } catch {
        // Refused.
      }
    }
    return accepted;
  };
}

function alterSome(token, index) {
  const forged = index % ALTERED_EVERY === 0;
  return { text: forged ? alter(token) : token, forged };
}

/** Changes a character of the tag. The spelling stays a valid one, so that only the tag tells. */
function alter(token) {
  const at = token.length - 10;
  return token.slice(0, at) + (token[at] === "A" ? "B" : "A") + token.slice(at + 1);
}
