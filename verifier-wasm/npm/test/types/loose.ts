// A program that is right, for projects that are not strict or have no types but those
// of an older language.

import { createMemoryStore, createVerifier } from "mailroom-verifier";
import { checkStore } from "mailroom-verifier/conformance";
import { VerificationError } from "mailroom-verifier/errors";
import { createGuard } from "mailroom-verifier/guard";
import { createVerifier as createPublicVerifier } from "mailroom-verifier/public";
import { createD1Store } from "mailroom-verifier/stores/d1";
import { createDenoKvStore } from "mailroom-verifier/stores/deno-kv";
import { createDurableObjectStore } from "mailroom-verifier/stores/durable-object";
import { createDynamoDbStore } from "mailroom-verifier/stores/dynamodb";
import { createPostgresStore } from "mailroom-verifier/stores/postgres";
import { createRedisStore } from "mailroom-verifier/stores/redis";
import { createUpstashStore } from "mailroom-verifier/stores/upstash";

export const stores = [
  createD1Store,
  createDenoKvStore,
  createDurableObjectStore,
  createDynamoDbStore,
  createPostgresStore,
  createRedisStore,
  createUpstashStore,
  checkStore,
];

export async function activate(token: string, key: string): Promise<string> {
  const verifier = createVerifier({ keys: key });
  const verified = verifier.tryVerify(token, { action: "activate" });
  if (verified.ok === false) return verified.reason;
  const id: Uint8Array = verified.token.consumedId;
  const guard = createGuard({ verifier, store: createMemoryStore({ capacity: 1000 }) });
  const redeemed = await guard.tryRedeem(
    token,
    { action: "activate" },
    ({ secret }) => secret.length + id.length,
  );
  if (redeemed.ok === false) return redeemed.reason;
  const count: number = redeemed.result;
  return String(count);
}

export function expiry(token: string, key: string): number {
  try {
    const link = createPublicVerifier({ keys: key }).tryVerifyLink(token, { action: "recover" });
    return link.ok === true ? link.link.expiresAt : 0;
  } catch (error) {
    if (error instanceof VerificationError) return 0;
    throw error;
  }
}
