// The entry on the platform's cryptography: as the others, but with promises.

import type { Refused, VerifiedToken } from "mailroom-verifier";
import { defineActions } from "mailroom-verifier/actions";
import * as publicEntry from "mailroom-verifier/public";
import {
  bindingOf,
  createSharedVerifier,
  createVerifier,
  type SharedWebVerifier,
  type WebLink,
  type WebVerifier,
} from "mailroom-verifier/web";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(proof: Same<A, B>): void;
declare const token: string;

const verifier = createVerifier({ keys: token, fallback: async () => publicEntry });
same<typeof verifier, WebVerifier>(true);
const shared = createSharedVerifier({ keys: token });
same<typeof shared, SharedWebVerifier>(true);
const further = createVerifier({
  keys: () => token as string | undefined,
  actions: defineActions({ invite: { number: 4, path: "/invite", digits: 0 } }),
});
export async function use(): Promise<void> {
  const result = await verifier.tryVerify(token, { action: "recover" });
  if (result.ok) same<string, typeof result.token.action>(false);
  else same<typeof result.reason, Refused["reason"]>(true);
  const link: WebLink = await verifier.verifyLink(token, { action: "recover" });
  const proven: VerifiedToken = await link.withUncountedCode(undefined);
  proven.consumedId.byteLength;
  await shared.tryVerifyWithUncountedCode(token, { action: "recover", code: null });
  await further.tryVerify(token, { action: "invite" });
  (await bindingOf(undefined))?.byteLength;
  // @ts-expect-error it answers later
  verifier.tryVerify(token, { action: "activate" }).ok;
  // @ts-expect-error no such action
  await verifier.tryVerify(token, { action: "invite" });
  // @ts-expect-error a recovery needs what counts its codes
  await shared.verify(token, { action: "recover" });
}
// @ts-expect-error no signature of v3 covers a code
verifier.verifyWithUncountedCode;
// @ts-expect-error nothing but the platform and the fallback judges signatures
createVerifier({ keys: token, signatures: "webassembly" });
// @ts-expect-error a fallback is loaded when it is needed
createVerifier({ keys: token, fallback: publicEntry });
// @ts-expect-error the main entry judges no public keys
createVerifier({ keys: token, fallback: () => import("mailroom-verifier") });
