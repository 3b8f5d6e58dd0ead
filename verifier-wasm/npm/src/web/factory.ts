import { codeOf, OF_LINK, OF_TOKEN, readExpectation, textOf } from "../arguments/options.js";
import {
  ACTION,
  asResult,
  CODE_MALFORMED,
  CODE_MISMATCH,
  CODE_REQUIRED,
  CODE_UNCHECKABLE,
  EXPIRED,
  LINK_UNCHECKABLE,
  OK,
  OTHER_BROWSER,
  orThrow,
  refused,
  SIGNATURE,
  UNKNOWN_KEY,
  unaccepted,
} from "../errors/status.js";
import type { KnownAction } from "../token/actions.js";
import { VerifiedToken } from "../token/token.js";
import type { Action, Bytes } from "../token/types.js";
import { coversCode, hasHeader, isPublic } from "../token/version.js";
import type { ReadOptions } from "../verifier/options.js";
import { areSame, decode } from "./encoding.js";
import { WebLink } from "./link.js";
import { isKnown, type Parsed, parse, UNKNOWN_ACTION } from "./parsing.js";
import { hash } from "./platform.js";
import type { SharedWebVerifier, WebVerifier } from "./verifier.js";

/** What verifiers of one kind of keys do in a way of their own. */
export interface Kind<Key extends { readonly id: Bytes }> {
  readonly isPublic: boolean;
  prepare(bytes: Bytes): Promise<Key>;
  /** Whether the key signed a token, of v1 for an action and a code. */
  isSigned(
    key: Key,
    parsed: Parsed,
    token: string,
    action: KnownAction,
    code: string | undefined,
  ): Promise<boolean>;
  /** Whether a code is that of a link of v2, which the key signed. */
  isCode(key: Key, parsed: Parsed, code: string): Promise<boolean>;
}

/** A call, once its arguments were read. */
interface Call {
  readonly token: string;
  readonly action: KnownAction;
  readonly code: string | undefined;
  readonly nonce: string;
  readonly now: number;
}

/** The binding of the browser that has this nonce, if it is one. */
export async function bindingOfNonce(nonce: string): Promise<Bytes | undefined> {
  if (nonce.length !== 43 || !decode(nonce)) return undefined;
  const text = Uint8Array.from(nonce, (character) => character.charCodeAt(0));
  return hash("browser", text, 16);
}

/** @internal What `createVerifier` calls, once it has read its options. */
export function makeWebVerifier<Further extends string, Key extends { readonly id: Bytes }>(
  read: ReadOptions<Bytes>,
  kind: Kind<Key>,
): WebVerifier<Further> {
  const { judge, judgeLink } = makeJudge<Further, Key>(read, kind);
  return Object.freeze<WebVerifier<Further>>({
    verify: async (token, expected) => orThrow(await judge(token, expected, OF_LINK)),
    tryVerify: async (token, expected) => asResult(await judge(token, expected, OF_LINK)),
    verifyLink: async (token, expected) => orThrow(await judgeLink(token, expected)),
    async tryVerifyLink(token, expected) {
      const verdict = await judgeLink(token, expected);
      return typeof verdict === "number" ? refused(verdict) : { ok: true, link: verdict };
    },
    clockTolerance: read.clockTolerance,
  });
}

/** @internal The same for `createSharedVerifier`. */
export function makeSharedWebVerifier<Further extends string, Key extends { readonly id: Bytes }>(
  read: ReadOptions<Bytes>,
  kind: Kind<Key>,
): SharedWebVerifier<Further> {
  const { judge } = makeJudge<Further, Key>(read, kind);
  return Object.freeze<SharedWebVerifier<Further>>({
    ...makeWebVerifier<Further, Key>(read, kind),
    verifyWithUncountedCode: async (token, expected) =>
      orThrow(await judge(token, expected, OF_TOKEN)),
    tryVerifyWithUncountedCode: async (token, expected) =>
      asResult(await judge(token, expected, OF_TOKEN)),
  });
}

/** Judges as `verifier/factory.ts` does with a module, and in the same order (FORMAT.md). */
function makeJudge<Further extends string, Key extends { readonly id: Bytes }>(
  { keys, actions, accepted, clock, clockTolerance }: ReadOptions<Bytes>,
  kind: Kind<Key>,
) {
  type Token = VerifiedToken<Action | Further>;
  let ring: { readonly of: readonly Bytes[]; readonly prepared: readonly Key[] } | undefined;

  /** The keys of the ring, which are prepared once. */
  async function preparedKeys(given: readonly Bytes[]): Promise<readonly Key[]> {
    if (ring?.of === given) return ring.prepared;
    const prepared = await Promise.all(given.map((bytes) => kind.prepare(bytes)));
    // Not the promise is kept, since workerd settles none for another request.
    ring = { of: given, prepared };
    return prepared;
  }

  const read = () => Math.floor(clock());
  const hasEnded = ({ expiresAt }: Parsed, now: number) => now >= expiresAt + clockTolerance;

  function readCall(sent: unknown, expected: unknown, known: typeof OF_TOKEN): Call {
    const { action: name, code, nonce } = readExpectation(expected, known);
    return {
      action: actions.demand(name),
      token: textOf(sent),
      code: codeOf(code),
      nonce: textOf(nonce),
      now: read(),
    };
  }

  /** The status of a code beside a link that `key` signed. */
  async function judgeCode(
    key: Key,
    parsed: Parsed,
    digits: number,
    code: string | undefined,
  ): Promise<number> {
    const fault = codeFault(coversCode(parsed.version) ? digits : 0, code);
    if (fault !== OK || code === undefined || (await kind.isCode(key, parsed, code))) return fault;
    return CODE_MISMATCH;
  }

  /** Which key signed a token, and in which browser it is; or why it is refused. */
  async function judgeSignature(
    { token, action, code, nonce, now }: Call,
    isLink: boolean,
  ): Promise<{ key: Key; parsed: Parsed; elsewhere: boolean; id: Bytes } | number> {
    const given = keys();
    const parsed = parse(token);
    if (typeof parsed === "number") return parsed;
    const { version, binding } = parsed;
    const isV1 = !hasHeader(version);
    const isOfOthers = kind.isPublic !== isPublic(version);
    if (!isV1 && !(kind.isPublic && isOfOthers) && !isKnown(parsed, actions.list)) {
      return UNKNOWN_ACTION;
    }
    if (isV1 && !kind.isPublic && !isLink) {
      // The code is part of what is signed.
      const fault = action.number > 2 ? SIGNATURE : codeFault(action.digits, code);
      if (fault !== OK) return fault;
    }
    if (!accepted.includes(version)) return unaccepted(version, accepted);
    if (isV1 && isLink) return LINK_UNCHECKABLE;

    const ring = await preparedKeys(given);
    const named = isV1 ? ring : ring.filter(({ id }) => areSame(id, parsed.keyId));
    if (named.length === 0) return UNKNOWN_KEY;
    for (const key of named) {
      if (!(await kind.isSigned(key, parsed, token, action, code))) continue;
      if (!isV1 && parsed.action !== action.number) return ACTION;
      if (!isV1 && hasEnded(parsed, now)) return EXPIRED;
      const visitor = binding.length > 0 ? await bindingOfNonce(nonce) : binding;
      const elsewhere = visitor === undefined || !areSame(binding, visitor);
      return { key, parsed, elsewhere, id: await hash("consumed", parsed.secret, 16) };
    }
    return SIGNATURE;
  }

  async function judge(
    sent: unknown,
    expected: unknown,
    known: typeof OF_TOKEN,
  ): Promise<Token | number> {
    const call = readCall(sent, expected, known);
    const signed = await judgeSignature(call, false);
    if (typeof signed === "number") return signed;
    const { key, parsed, elsewhere, id } = signed;
    if (elsewhere) return OTHER_BROWSER;
    const { token, action, code, now } = call;
    const status = hasHeader(parsed.version)
      ? await judgeCode(key, parsed, action.digits, code)
      : OK;
    if (status !== OK) return status;
    return new VerifiedToken(identified(id), token, action, parsed.expiresAt, now, false);
  }

  async function judgeLink(
    sent: unknown,
    expected: unknown,
  ): Promise<WebLink<Action | Further> | number> {
    const call = readCall(sent, expected, OF_LINK);
    const signed = await judgeSignature(call, true);
    if (typeof signed === "number") return signed;
    const { key, parsed, elsewhere, id } = signed;
    const { token, action } = call;
    const at = (verifiedAt: number): Token =>
      new VerifiedToken(identified(id), token, action, parsed.expiresAt, verifiedAt, elsewhere);
    const proven = at(call.now);
    return new WebLink(proven, clockTolerance, action.digits, async (code) => {
      const now = read();
      if (hasEnded(parsed, now)) return EXPIRED;
      if (elsewhere && !proven.codeIsProven) return OTHER_BROWSER;
      const status = await judgeCode(key, parsed, action.digits, code);
      return status === OK ? at(now) : status;
    });
  }

  return { judge, judgeLink };
}

/** The status of a code of so many digits by its shape; `OK` for none where there is none. */
function codeFault(digits: number, code: string | undefined): number {
  if (digits === 0) return code === undefined ? OK : CODE_UNCHECKABLE;
  if (code === undefined) return CODE_REQUIRED;
  return code.length === digits && /^\d+$/.test(code) ? OK : CODE_MALFORMED;
}

/** What gives a token its consumed-token id. */
function identified(id: Bytes): { readonly id: () => Bytes } {
  return { id: () => id.slice() };
}
