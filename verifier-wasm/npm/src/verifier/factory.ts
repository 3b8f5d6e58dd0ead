import { atCaller } from "../arguments/caller.js";
import { codeOf, OF_LINK, OF_TOKEN, readExpectation, textOf } from "../arguments/options.js";
import {
  asResult,
  CODE_UNCHECKABLE,
  EXPIRED,
  isAboutCode,
  isMalformed,
  OK,
  OTHER_BROWSER,
  orThrow,
  refused,
  SIGNATURE,
  UNKNOWN_KEY,
  unaccepted,
} from "../errors/status.js";
import { VerifiedToken } from "../token/token.js";
import type { Action } from "../token/types.js";
import { hasHeader, type Version, versionOf } from "../token/version.js";
import { type Engine, NOT_JUDGED, type PreparedKey } from "../wasm/engine.js";
import { VerifiedLink } from "./link.js";
import { invalid, type Told } from "./options.js";
import { platformOf } from "./platform.js";
import { withPlatform } from "./platform_judging.js";
import type { PublicVerifier } from "./public_verifier.js";
import type { KeyRing } from "./ring.js";
import type { Verifier } from "./verifier.js";

/** @internal What a verifier is made of. */
export interface Parts extends Omit<Told<PreparedKey>, "keys" | "own"> {
  readonly engine: Engine;
  /** Throws where the keys are read at the first use and are not good. */
  readonly ring: () => KeyRing;
}

/** @internal What a verifier of public keys is made of. */
export interface PublicParts extends Parts {
  /** Whether the platform may check signatures. */
  readonly usesPlatform: boolean;
}

/**
 * @internal What the entries of shared keys call `createVerifier`, once they have read its options.
 */
export function makeVerifier<Further extends string>(parts: Parts): Verifier<Further> {
  const { judge, verifier } = makeJudge<Further>(parts);
  const shared: Verifier<Further> = {
    ...verifier,
    verifyWithUncountedCode: (token, expected) =>
      atCaller(shared.verifyWithUncountedCode, () => orThrow(judge(token, expected, OF_TOKEN))),
    tryVerifyWithUncountedCode: (token, expected) => asResult(judge(token, expected, OF_TOKEN)),
  };
  return Object.freeze(shared);
}

/**
 * @internal The same for public keys. No v3 signature covers a code, so there is none to compare.
 */
export function makePublicVerifier<Further extends string>(
  parts: PublicParts,
): PublicVerifier<Further> {
  const { engine, usesPlatform } = parts;
  const platform = usesPlatform ? platformOf(engine) : undefined;
  const judging = platform ? withPlatform(engine, platform) : engine;
  return Object.freeze<PublicVerifier<Further>>({
    ...makeJudge<Further>(parts, judging).verifier,
    get signatures() {
      return platform?.ed25519 ? "platform" : "webassembly";
    },
  });
}

/** `judging` is the engine of the parts, or stands before it. */
function makeJudge<Further extends string>(
  parts: Parts,
  judging: Pick<Engine, "verify" | "verifyLink"> = parts.engine,
): {
  judge: (
    sent: unknown,
    expected: unknown,
    known: typeof OF_TOKEN,
  ) => VerifiedToken<Action | Further> | number;
  verifier: Omit<PublicVerifier<Further>, "signatures">;
} {
  type Token = VerifiedToken<Action | Further>;
  const { engine, ring, actions, accepted, clock, clockTolerance } = parts;
  // By version, since a list is searched more slowly.
  const accepts: boolean[] = [];
  for (const version of accepted) accepts[version] = true;

  /** The same status, or that the key is missing which the token names. */
  const explained = (status: number, token: string, version: Version) =>
    status === SIGNATURE && hasHeader(version) && !ring().knows(token) ? UNKNOWN_KEY : status;

  function judge(sent: unknown, expected: unknown, known: typeof OF_TOKEN): Token | number {
    const { action: name, code, nonce } = readExpectation(expected, known);
    const action = actions.find(name);
    if (!action) throw invalid("action");
    const token = textOf(sent);
    const now = clock();
    const keys = ring().candidates(token);
    const status = judging.verify(
      token,
      action,
      codeOf(code),
      textOf(nonce),
      keys,
      now,
      clockTolerance,
    );
    const version = versionOf(token);
    if (!accepts[version]) {
      return isMalformed(status) || (!hasHeader(version) && isAboutCode(status))
        ? status
        : unaccepted(version, accepted);
    }
    if (status === OK)
      return new VerifiedToken(engine, token, action, engine.expiresAt, now, false);
    return explained(status, token, version);
  }

  function judgeLink(sent: unknown, expected: unknown): VerifiedLink<Action | Further> | number {
    const { action: name, nonce } = readExpectation(expected, OF_LINK);
    const action = actions.find(name);
    if (!action) throw invalid("action");
    const token = textOf(sent);
    const now = clock();
    const keys = ring().candidates(token);
    const status = judging.verifyLink(token, action, textOf(nonce), keys, now, clockTolerance);
    const version = versionOf(token);
    if (!accepts[version]) return isMalformed(status) ? status : unaccepted(version, accepted);
    const elsewhere = status === OTHER_BROWSER;
    if (status !== OK && !elsewhere) return explained(status, token, version);
    const { expiresAt } = engine;
    const at = (verifiedAt: number): Token =>
      new VerifiedToken(engine, token, action, expiresAt, verifiedAt, elsewhere);
    const proven = at(now);
    return new VerifiedLink(proven, clockTolerance, action.digits, (code) => {
      const now = clock();
      let status = OK;
      // All keys are tried again: ids may collide.
      if (proven.codeIsProven)
        status = engine.verify(token, action, code, NOT_JUDGED, keys, now, clockTolerance);
      else if (now >= expiresAt + clockTolerance) status = EXPIRED;
      else if (elsewhere) status = OTHER_BROWSER;
      else if (code !== undefined) status = CODE_UNCHECKABLE;
      return status === OK ? at(now) : status;
    });
  }

  const verifier: Omit<PublicVerifier<Further>, "signatures"> = {
    verify: (token, expected) =>
      atCaller(verifier.verify, () => orThrow(judge(token, expected, OF_LINK))),
    tryVerify: (token, expected) => asResult(judge(token, expected, OF_LINK)),
    verifyLink: (token, expected) =>
      atCaller(verifier.verifyLink, () => orThrow(judgeLink(token, expected))),
    tryVerifyLink(token, expected) {
      const verdict = judgeLink(token, expected);
      return typeof verdict === "number" ? refused(verdict) : { ok: true, link: verdict };
    },
    clockTolerance,
  };
  return { judge, verifier };
}
