// Links, guards and stores. Nothing here runs.

import {
  type Action,
  createGuard,
  createMemoryStore,
  createVerifier,
  type Guard,
  type LinkVerification,
  type MemoryStore,
  type RefusedRedemption,
  type TokenStore,
  type VerifiedLink,
  type VerifiedToken,
} from "mailroom-verifier";
import { defineActions } from "mailroom-verifier/actions";
import { type CheckName, checkStore } from "mailroom-verifier/conformance";
import {
  errorOf,
  type RedemptionError,
  type RedemptionReason,
  type VerificationError,
} from "mailroom-verifier/errors";
import * as publicEntry from "mailroom-verifier/public";
import { createD1Store, type TABLE as TABLE_OF_D1 } from "mailroom-verifier/stores/d1";
import { createDenoKvStore } from "mailroom-verifier/stores/deno-kv";
import { createDurableObjectStore, UsedToken } from "mailroom-verifier/stores/durable-object";
import { createDynamoDbStore } from "mailroom-verifier/stores/dynamodb";
import { createPostgresStore, type TABLE } from "mailroom-verifier/stores/postgres";
import { createRedisStore } from "mailroom-verifier/stores/redis";
import { createUpstashStore } from "mailroom-verifier/stores/upstash";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(proof: Same<A, B>): void;

declare const token: string;

const verifier = createVerifier({
  keys: token,
  accept: ["v2"],
  clock: () => Date.now() / 1000,
  clockTolerance: 5,
});
// @ts-expect-error a format that a shared key cannot verify
createVerifier({ keys: token, accept: ["v3"] });
const link = verifier.verifyLink(token, { action: "recover" });
same<typeof link, VerifiedLink>(true);
same<typeof link.version, 2 | 3>(true);
same<typeof link.expiresAt, number>(true);
same<typeof link.action, Action>(true);
// @ts-expect-error a link is judged without its code
verifier.verifyLink(token, { action: "recover", code: "01234" });
same<ReturnType<typeof link.withUncountedCode>, VerifiedToken>(true);
same<ReturnType<typeof verifier.tryVerifyLink>, LinkVerification>(true);
// @ts-expect-error of a link the code is not proven
const proven: VerifiedToken = link;

const store = createMemoryStore({ capacity: 1000 });
same<typeof store, MemoryStore>(true);
same<ReturnType<typeof store.consume>, boolean>(true);
// @ts-expect-error a capacity is required
createMemoryStore({});
const guard: Guard = createGuard({
  verifier,
  store,
  maxCodeAttempts: 3,
  storeTimeout: 2,
  v1RememberFor: 900,
});
same<Awaited<ReturnType<typeof plain>>, VerifiedToken>(true);
const plain = () => guard.redeem(token, { action: "activate" });
const withCallback = () => guard.redeem(token, { action: "recover", code: "01234" }, async () => 5);
same<Awaited<ReturnType<typeof withCallback>>, number>(true);
// @ts-expect-error a recovery has a code
guard.redeem(token, { action: "recover" });
// @ts-expect-error a recovery has a code
guard.tryRedeem(token, { action: "recover" });
// @ts-expect-error a code that may be missing
guard.redeem(token, { action: "recover", code: token as string | undefined });
// @ts-expect-error an activation has no code
guard.redeem(token, { action: "activate", code: "01234" });
// @ts-expect-error a token that may be missing
guard.redeem(token as string | null, { action: "activate" });
// What a form may hold, from whoever sent it.
declare const sent: string | string[] | null | undefined;
guard.tryRedeem(sent, { action: "recover", code: sent });
verifier.tryVerify(sent, { action: "activate" });
verifier.tryVerifyLink(sent, { action: "recover" });
verifier.tryVerifyWithUncountedCode(sent, { action: "recover", code: sent });
link.tryWithUncountedCode(sent);
// @ts-expect-error a code that may be missing
link.withUncountedCode(sent);
const redeemed = await guard.tryRedeem(token, { action: "activate", expiresAt: 5 }, () => "done");
if (redeemed.ok) {
  same<typeof redeemed.result, string>(true);
  same<typeof redeemed.token, VerifiedToken>(true);
} else {
  same<typeof redeemed, RefusedRedemption>(true);
  const error = errorOf(redeemed);
  same<typeof error, VerificationError | RedemptionError>(true);
  same<typeof redeemed.kind, "visitor" | "operator">(true);
  same<typeof redeemed.message, string>(true);
  redeemed.reason satisfies RedemptionReason | VerificationError["reason"];
}
const inviting = createVerifier({
  keys: token,
  actions: defineActions({ invite: { number: 4, path: "/invite", digits: 0 } }),
});
const invited = await createGuard({ verifier: inviting, store }).redeem(token, {
  action: "invite",
});
same<typeof invited.action, Action | "invite">(true);
// @ts-expect-error an action that the verifier of the guard does not know
createGuard({ verifier: inviting, store }).redeem(token, { action: "sign_in" });
// @ts-expect-error a store is required
createGuard({ verifier });
// @ts-expect-error a misspelt option
createGuard({ verifier, store, maxAttempts: 5 });
// @ts-expect-error whoever answers something else than true or false is no store
createGuard({ verifier, store: { consume: () => "OK" } });
createGuard({ verifier, store: { consume: async () => true } satisfies TokenStore });

const publicVerifier = publicEntry.createVerifier({ keys: "mrpk_", accept: ["v3"] });
createGuard({
  verifier: publicVerifier,
  store,
  checkCode: async (found, code) => found.consumedId.length > code.length,
});
publicEntry.createGuard({ verifier: publicVerifier, store });
same<
  typeof publicEntry.createVerifier extends (options: infer Given) => unknown ? keyof Given : never,
  "keys" | "actions" | "accept" | "clock" | "clockTolerance" | "signatures"
>(true);
same<typeof publicVerifier.signatures, "platform" | "webassembly">(true);
publicEntry.createVerifier({ keys: "mrpk_", signatures: "webassembly" });
// @ts-expect-error not every platform has it
publicEntry.createVerifier({ keys: "mrpk_", signatures: "platform" });
publicEntry.createVerifier({ keys: () => "mrpk_" });
// @ts-expect-error a public key cannot check a code
publicVerifier.verify(token, { action: "recover", code: "01234" });

const namespace = "mailroom";
createRedisStore({ client: async (words: string[]) => words.length, namespace }).release(
  new Uint8Array(16),
  0,
  new Uint8Array(16),
);
createRedisStore({ client: { sendCommand: async (words: string[]) => words }, namespace });
createRedisStore({
  client: { call: async (command: string, ...words: string[]) => [command, words] },
  namespace,
});
// @ts-expect-error a namespace is required
createRedisStore({ client: async () => 1 });
createPostgresStore({ client: { query: async () => ({ rows: [] }) }, namespace });
createPostgresStore({ client: { unsafe: async () => [] }, namespace });
same<typeof TABLE, string>(true);
declare const binding: Parameters<typeof createDurableObjectStore>[0]["binding"];
createDurableObjectStore({ binding, namespace });
new UsedToken({ storage: {} }).alarm();
createUpstashStore({ url: "https://database", token, namespace });
// @ts-expect-error a token is required
createUpstashStore({ url: "https://database", namespace });
declare const database: Parameters<typeof createD1Store>[0]["database"];
createD1Store({ database, namespace });
same<typeof TABLE_OF_D1, string>(true);
declare const kv: Parameters<typeof createDenoKvStore>[0]["kv"];
createDenoKvStore({ kv, namespace });
declare const client: Parameters<typeof createDynamoDbStore>[0]["client"];
createDynamoDbStore({ client, table: "used_tokens", namespace });
// @ts-expect-error a table is required
createDynamoDbStore({ client, namespace });

const { passed, checks } = await checkStore({ store, small: store, unreachable: store });
same<typeof passed, boolean>(true);
same<(typeof checks)[number]["name"], CheckName>(true);
void [proven, plain, withCallback];
