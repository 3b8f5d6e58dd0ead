// What the types allow and what they refuse. Nothing here runs.

import {
  type Action,
  type Browser,
  type Bytes,
  bindingOf,
  createVerifier,
  decodeUnverified,
  type ExpectedActivation,
  type ExpectedRecovery,
  type Refused,
  type SharedKey,
  type UnverifiedToken,
  type Verification,
  type Verified,
  type VerifiedToken,
  type Verifier,
  type VerifierOptions,
} from "mailroom-verifier";
import { defineActions } from "mailroom-verifier/actions";
import * as errors from "mailroom-verifier/errors";
import {
  type ErrorKind,
  TokenMalformedError,
  VerificationError,
  type VerificationReason,
  VerifierError,
} from "mailroom-verifier/errors";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(proof: Same<A, B>): void;

declare const bytes: Uint8Array;
declare const token: string;
declare const maybe: string | null;

const verifier = createVerifier({ keys: token });
same<typeof verifier, Verifier>(true);
createVerifier({ keys: bytes });
createVerifier({ keys: [token, bytes] as const, dangerouslyAllowSecretInBrowser: true });
createVerifier({ keys: [] as SharedKey[] } satisfies VerifierOptions);
createVerifier({ keys: () => token as string | undefined });
createVerifier({ keys: () => [token, bytes] });
// @ts-expect-error verifying does not wait for keys
createVerifier({ keys: async () => token });
// @ts-expect-error keys are required
createVerifier({});
// @ts-expect-error a misspelt option
createVerifier({ keys: token, dangerouslyAllowSecretsInBrowser: true });
// @ts-expect-error an environment variable may be missing
createVerifier({ keys: undefined as string | undefined });
// @ts-expect-error numbers are no key
createVerifier({ keys: [1, 2, 3] });
// @ts-expect-error the permission is a boolean
createVerifier({ keys: token, dangerouslyAllowSecretInBrowser: "yes" });

const further = createVerifier({
  keys: token,
  actions: defineActions({
    invite: { number: 4, path: "/invite", digits: 0 },
    change_email: { number: 3, path: "/account/email", digits: 6 },
  }),
});
same<typeof further, Verifier<"invite" | "change_email">>(true);
const invited = further.verify(token, { action: "invite" });
same<typeof invited.action, Action | "invite" | "change_email">(true);
further.verifyWithUncountedCode(token, { action: "change_email", code: "012345" });
same<ReturnType<typeof further.verifyLink>["codeDigits"], number>(true);
// @ts-expect-error an action that the verifier does not know
further.verify(token, { action: "sign_in" });
// @ts-expect-error an action that this verifier does not know
verifier.verify(token, { action: "invite" });
// @ts-expect-error no code has four digits
defineActions({ invite: { number: 4, path: "/invite", digits: 4 } });
// @ts-expect-error an action has a path
defineActions({ invite: { number: 4, digits: 0 } });
// @ts-expect-error actions that nothing has checked
createVerifier({ keys: token, actions: { invite: { number: 4, path: "/invite", digits: 0 } } });

const verified = verifier.verify(token, { action: "activate" });
same<typeof verified, VerifiedToken>(true);
same<typeof verified.version, 1 | 2 | 3>(true);
same<typeof verified.expiresAt, number | undefined>(true);
same<typeof verified.action, Action>(true);
same<Action, "activate" | "recover">(true);
same<typeof verified.secret, Uint8Array<ArrayBuffer>>(true);
same<typeof verified.consumedId, Uint8Array<ArrayBuffer>>(true);
verifier.verifyWithUncountedCode(token, { action: "recover", code: "01234" });
// @ts-expect-error a code is compared where its tries are counted
verifier.verify(token, { action: "recover", code: "01234" });
// @ts-expect-error nothing can be changed
verified.secret = bytes;
// @ts-expect-error an action is required
verifier.verify(token, {});
// @ts-expect-error another action
verifier.verify(token, { action: "activation" });
// @ts-expect-error a recovery has a code
verifier.verify(token, { action: "recover" });
// @ts-expect-error a recovery has a code
verifier.tryVerifyWithUncountedCode(token, { action: "recover" });
// @ts-expect-error an activation has none
verifier.verify(token, { action: "activate", code: "01234" });
// @ts-expect-error a code is text, so that 01234 keeps its zero
verifier.verifyWithUncountedCode(token, { action: "recover", code: 1234 });
// @ts-expect-error a misspelt option
verifier.verifyWithUncountedCode(token, { action: "recover", code: "01234", cod: "" });
// @ts-expect-error a parameter that may be missing
verifier.verify(maybe, { action: "activate" });
verifier.verify(maybe ?? "", { action: "activate" } satisfies ExpectedActivation);

same<Verification, Verified | Refused>(true);
same<SharedKey, string | Uint8Array>(true);
same<Bytes, Uint8Array<ArrayBuffer>>(true);
const recovery: ExpectedRecovery = { action: "recover", code: "01234" };
verifier.tryVerifyWithUncountedCode(token, recovery);
// @ts-expect-error a code that may be missing
verifier.verifyWithUncountedCode(token, { action: "recover", code: token as string | undefined });
// @ts-expect-error an action that nobody has looked at
verifier.verify(token, { action: token });
// @ts-expect-error a verifier cannot be changed
verifier.verify = verifier.tryVerify;

const { verify, tryVerify } = verifier;
verify(token, { action: "activate" }).consumedId.byteLength;

const result = tryVerify(token, { action: "activate" });
same<typeof result, Verification>(true);
// @ts-expect-error nothing is known before `ok` is asked
result.token;
if (result.ok) {
  same<typeof result.token, VerifiedToken>(true);
  // @ts-expect-error what is genuine has no error
  errors.errorOf(result);
} else {
  same<typeof result.reason, VerificationReason>(true);
  const error = errors.errorOf(result);
  same<typeof error, VerificationError>(true);
  same<typeof result.kind, "visitor">(true);
  // @ts-expect-error what was refused has no token
  result.token;
  const { reason } = result;
  switch (reason) {
    case "ERR_TOKEN_MALFORMED":
    case "ERR_CODE_MISMATCH":
      break;
    // @ts-expect-error there is no such reason
    case "ERR_TOKEN_FORGED":
      break;
    default:
      reason satisfies Exclude<VerificationReason, "ERR_TOKEN_MALFORMED" | "ERR_CODE_MISMATCH">;
  }
}

declare const cookies: { readonly value: string } | undefined;
const opened = verifier.verifyLink(token, { action: "recover", nonce: cookies?.value });
same<typeof opened.browser, "same" | "other" | "unbound">(true);
same<Browser, "same" | "other" | "unbound">(true);
same<ReturnType<typeof verify>["browser"], Browser>(true);
tryVerify(token, { action: "activate", nonce: maybe });
tryVerify(token, { action: "activate", nonce: [token, token] as const });
verifier.verifyWithUncountedCode(token, { action: "recover", code: "01234", nonce: token });
same<ReturnType<typeof bindingOf>, Bytes | undefined>(true);
// @ts-expect-error the value of the cookie, not the cookie
tryVerify(token, { action: "activate", nonce: cookies });
// @ts-expect-error a nonce is text
bindingOf(bytes);

const shown = decodeUnverified(token);
same<typeof shown.unverifiedBinding, Bytes | undefined>(true);
same<typeof shown, UnverifiedToken>(true);
same<typeof shown.verified, false>(true);
same<typeof shown.version, 1 | 2 | 3>(true);
same<typeof shown.unverifiedExpiresAt, number | undefined>(true);
same<typeof shown.unverifiedSecret, Bytes>(true);
same<typeof shown.unverifiedSignature, Bytes>(true);
same<typeof shown.unverifiedConsumedId, Bytes>(true);
// @ts-expect-error the name says that nothing is proven
shown.secret;
// @ts-expect-error what is not verified does not pass for what is
const forged: VerifiedToken = shown;
const lookalike = { version: 1, action: "activate", secret: bytes, consumedId: bytes } as const;
// @ts-expect-error nor does anything that only looks like it
const imitation: VerifiedToken = lookalike;
// @ts-expect-error a verified token is made by a verifier only
const made: VerifiedToken = new (verified.constructor as new () => VerifiedToken)("x");
void [forged, imitation, made];

try {
  verify(token, { action: "activate" });
} catch (error) {
  if (error instanceof TokenMalformedError) same<typeof error.reason, "ERR_TOKEN_MALFORMED">(true);
  if (error instanceof VerificationError) same<typeof error.reason, VerificationReason>(true);
  if (error instanceof VerifierError) {
    same<typeof error.reason, string>(true);
    same<typeof error.kind, ErrorKind>(true);
  }
}

same<typeof errors.TokenMalformedError.reason, "ERR_TOKEN_MALFORMED">(true);
same<typeof errors.TokenSignatureError.reason, "ERR_TOKEN_SIGNATURE">(true);
same<typeof errors.CodeUncheckableError.reason, "ERR_CODE_UNCHECKABLE">(true);
same<typeof errors.CodeRequiredError.reason, "ERR_CODE_REQUIRED">(true);
same<typeof errors.CodeMalformedError.reason, "ERR_CODE_MALFORMED">(true);
same<typeof errors.InvalidArgumentError.reason, "ERR_INVALID_ARGUMENT">(true);
same<typeof errors.KeyInvalidError.reason, "ERR_KEY_INVALID">(true);
same<typeof errors.SecretInBrowserError.reason, "ERR_SECRET_IN_BROWSER">(true);
same<typeof errors.WasmUnavailableError.reason, "ERR_WASM_UNAVAILABLE">(true);
same<typeof errors.PlatformUnavailableError.reason, "ERR_PLATFORM_UNAVAILABLE">(true);
const handmade: VerifierError = new errors.KeyInvalidError("message", { cause: token });
// @ts-expect-error a wrong key is not the visitor's fault
const visitors: VerificationError = handmade;
// @ts-expect-error the base has no reason of its own
new errors.VerifierError("message");
// @ts-expect-error a reason never changes
handmade.reason = "ERR_KEY_INVALID";
void visitors;
