import {
  TokenActionError,
  TokenExpiredError,
  TokenMalformedError,
  TokenOtherBrowserError,
  TokenSignatureError,
} from "../errors/errors.js";
import { bytesOf } from "../token/binary.js";
import type { KnownAction } from "../token/known_actions.js";
import { type TokenReader, VerifiedToken } from "../token/token.js";
import type { Action, Bytes } from "../token/types.js";
import { hasHeader } from "../token/version.js";
import { invalid, readOwn, type Told } from "../verifier/options.js";
import { areSame, decode } from "./encoding.js";
import { WebLink } from "./link.js";
import { type Parsed, parse } from "./parsing.js";
import { hash } from "./platform.js";
import { asResult, isRefusal, orThrow, type Refusal, type Verdict } from "./verdict.js";
import type { SharedWebVerifier, WebVerifier } from "./verifier.js";

/** What verifiers of one kind of keys do in a way of their own. */
export interface Kind<Key extends { readonly id: Bytes }> {
  prepare(bytes: Bytes): Promise<Key>;
  /** Why a token is refused before any key is tried, if it is. */
  refuses(parsed: Parsed, call: Call, isLink: boolean, told: Told<Bytes>): Refusal | undefined;
  /** Whether the key signed a token, of v1 for an action and a code. */
  isSigned(key: Key, parsed: Parsed, call: Call): Promise<boolean>;
  /** Why the code beside a link that the key signed is refused, if it is. */
  refusesCode(
    key: Key,
    parsed: Parsed,
    digits: number,
    code: string | undefined,
  ): Promise<Refusal | undefined>;
}

/** What is expected of a link, and of a token with its code. */
const OF_LINK = ["action", "nonce"];
const OF_TOKEN = [...OF_LINK, "code"];

/** A call, once its arguments were read. */
export interface Call {
  readonly token: string;
  readonly action: KnownAction;
  readonly code: string | undefined;
  readonly nonce: string;
  readonly now: number;
}

/** The binding of the browser that has this nonce, if it is one. */
export async function bindingOfNonce(nonce: string): Promise<Bytes | undefined> {
  if (nonce.length !== 43 || !decode(nonce)) return undefined;
  return hash("browser", bytesOf(nonce), 16);
}

/** @internal What `createVerifier` calls, once it has read its options. */
export function makeWebVerifier<Further extends string, Key extends { readonly id: Bytes }>(
  read: Told<Bytes>,
  kind: Kind<Key>,
): WebVerifier<Further> {
  const { judge, judgeLink } = makeJudge<Further, Key>(read, kind);
  return Object.freeze<WebVerifier<Further>>({
    verify: async (token, expected) => orThrow(await judge(token, expected, OF_LINK)),
    tryVerify: async (token, expected) => asResult("token", await judge(token, expected, OF_LINK)),
    verifyLink: async (token, expected) => orThrow(await judgeLink(token, expected)),
    tryVerifyLink: async (token, expected) => asResult("link", await judgeLink(token, expected)),
    clockTolerance: read.clockTolerance,
  });
}

/** @internal The same for `createSharedVerifier`. */
export function makeSharedWebVerifier<Further extends string, Key extends { readonly id: Bytes }>(
  read: Told<Bytes>,
  kind: Kind<Key>,
): SharedWebVerifier<Further> {
  const { judge } = makeJudge<Further, Key>(read, kind);
  return Object.freeze<SharedWebVerifier<Further>>({
    ...makeWebVerifier<Further, Key>(read, kind),
    verifyWithUncountedCode: async (token, expected) =>
      orThrow(await judge(token, expected, OF_TOKEN)),
    tryVerifyWithUncountedCode: async (token, expected) =>
      asResult("token", await judge(token, expected, OF_TOKEN)),
  });
}

/** Judges as `verifier/factory.ts` does with a module, and in the same order (token-format.md). */
function makeJudge<Further extends string, Key extends { readonly id: Bytes }>(
  told: Told<Bytes>,
  kind: Kind<Key>,
) {
  type Token = VerifiedToken<Action | Further>;
  const { keys, actions, clock, clockTolerance } = told;
  let ring: { readonly of: readonly Bytes[]; readonly prepared: readonly Key[] } | undefined;

  /** The keys of the ring, which are prepared once. */
  async function preparedKeys(given: readonly Bytes[]): Promise<readonly Key[]> {
    if (ring?.of === given) return ring.prepared;
    const prepared = await Promise.all(given.map((bytes) => kind.prepare(bytes)));
    // Not the promise is kept, since workerd settles none for another request.
    ring = { of: given, prepared };
    return prepared;
  }

  /** Whether a link has ended; of v1 the database alone knows. */
  const hasEnded = ({ version, expiresAt }: Parsed, now: number) =>
    hasHeader(version) && now >= expiresAt + clockTolerance;

  function readCall(sent: unknown, expected: unknown, known: readonly string[]): Call {
    const { action: name, code, nonce } = readOwn(expected, known);
    const action = actions.find(name);
    if (!action) throw invalid("action");
    return { action, token: textOf(sent), code: codeOf(code), nonce: textOf(nonce), now: clock() };
  }

  /** Which key signed a token, and in which browser it is; or why it is refused. */
  async function judgeSignature(
    call: Call,
    isLink: boolean,
  ): Promise<{ key: Key; parsed: Parsed; elsewhere: boolean; reader: TokenReader } | Refusal> {
    const { token, action, nonce, now } = call;
    const given = keys();
    const parsed = parse(token);
    if (!parsed) return TokenMalformedError;
    const refusal = kind.refuses(parsed, call, isLink, told);
    if (refusal) return refusal;
    const { version, binding, secret } = parsed;
    for (const key of await preparedKeys(given)) {
      const isMeant = !hasHeader(version) || areSame(key.id, parsed.keyId);
      if (!isMeant || !(await kind.isSigned(key, parsed, call))) continue;
      if (hasHeader(version) && parsed.action !== action.number) return TokenActionError;
      if (hasEnded(parsed, now)) return TokenExpiredError;
      const visitor = binding.length > 0 ? await bindingOfNonce(nonce) : binding;
      const elsewhere = visitor === undefined || !areSame(binding, visitor);
      const id = await hash("consumed", secret, 16);
      const reader = { id: () => id.slice(), secret: () => secret.slice() };
      return { key, parsed, elsewhere, reader };
    }
    return TokenSignatureError;
  }

  async function judge(
    sent: unknown,
    expected: unknown,
    known: readonly string[],
  ): Promise<Verdict<Token>> {
    const call = readCall(sent, expected, known);
    const signed = await judgeSignature(call, false);
    if (isRefusal(signed)) return signed;
    const { key, parsed, elsewhere, reader } = signed;
    const { token, action, code, now } = call;
    if (elsewhere) return TokenOtherBrowserError;
    return (
      (await kind.refusesCode(key, parsed, action.digits, code)) ??
      new VerifiedToken(reader, token, action, parsed.expiresAt, now, false)
    );
  }

  async function judgeLink(
    sent: unknown,
    expected: unknown,
  ): Promise<Verdict<WebLink<Action | Further>>> {
    const call = readCall(sent, expected, OF_LINK);
    const signed = await judgeSignature(call, true);
    if (isRefusal(signed)) return signed;
    const { key, parsed, elsewhere, reader } = signed;
    const { token, action } = call;
    const at = (verifiedAt: number): Token =>
      new VerifiedToken(reader, token, action, parsed.expiresAt, verifiedAt, elsewhere);
    const proven = at(call.now);
    return new WebLink(proven, clockTolerance, action.digits, async (sent) => {
      const code = codeOf(sent);
      const now = clock();
      if (hasEnded(parsed, now)) return TokenExpiredError;
      if (elsewhere && !proven.codeIsProven) return TokenOtherBrowserError;
      return (await kind.refusesCode(key, parsed, action.digits, code)) ?? at(now);
    });
  }

  return { judge, judgeLink };
}

/** The text that a visitor sent; any value that is none becomes an empty text, which is refused. */
export function textOf(sent: unknown): string {
  return typeof sent === "string" ? sent : "";
}

/** The same of a code; `undefined` means that there is no code. */
function codeOf(sent: unknown): string | undefined {
  return sent === undefined ? sent : textOf(sent);
}
