// In place of `web-demo/edge/link.ts`: shows a link whose token is a JSON Web Token, which jose
// verifies, and refuses others by the same page.

import { jwtVerify } from "jose";

import { errorPage, formPage, refusalPage } from "../../../../../web-demo/edge/page.ts";
import { refusalByEdge } from "../../../../../web-demo/edge/refusals.ts";
import { settingsOf } from "../../../../../web-demo/edge/settings.ts";
import { countRefusal } from "../../../../../web-demo/edge/tally.ts";

let made;

/** The key for the algorithm that the header of a token names. */
function keysOf(env) {
  made ??= imported(settingsOf(env));
  return ({ alg }) => made[alg];
}

function imported({ secretKeys: [secretKey], publicKeys: [publicKey] }) {
  return {
    HS256: Uint8Array.from(secretKey.match(/../g), (digits) => Number.parseInt(digits, 16)),
    EdDSA: { kty: "OKP", crv: "Ed25519", x: publicKey.slice("mrpk_".length) },
  };
}

export async function link(request, env, _, action) {
  const token = new URL(request.url).searchParams.get("token") ?? "";
  if (token === "") return errorPage(400, "There is no link here", "The address has no token.");
  try {
    const { payload } = await jwtVerify(token, keysOf(env), { algorithms: ["HS256", "EdDSA"] });
    if (payload.action !== action) throw new Error("a token of another action");
    const { publicKeys } = settingsOf(env);
    const form = { action, token, version: 2, expiresAt: payload.exp };
    return formPage({ ...form, publicKeys: publicKeys.join(" ") }, []);
  } catch {
    const reason = "ERR_TOKEN_SIGNATURE";
    countRefusal(reason);
    const text = "The edge has stopped this link; nothing behind it was asked.";
    return refusalPage(refusalByEdge(reason), reason, [{ by: "edge", passed: false, text }]);
  }
}
