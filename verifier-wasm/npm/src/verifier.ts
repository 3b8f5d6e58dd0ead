import type { Engine, PreparedKey } from "./engine.js";
import { InvalidArgumentError, SecretInBrowserError } from "./errors.js";
import { prepareRing } from "./keys.js";
import { readOptions } from "./options.js";
import { OK, RefusedToken, refusal, SIGNATURE } from "./status.js";
import { VerifiedToken } from "./token.js";
import type { Expectation, Verification } from "./types.js";

/** Verifies tokens with the keys that it was made with. Its methods need no `this`. */
export interface Verifier {
  /**
   * Proves that a key of the ring signed this token for this action and, of a recovery, for this code.
   *
   * @throws VerificationError when the token or the code is not good
   * @throws InvalidArgumentError when the call is wrong, for instance because the token is no string
   * @example
   * const token = verifier.verify(url.searchParams.get("token") ?? "", { action: "activate" });
   */
  verify(token: string, expected: Expectation): VerifiedToken;

  /**
   * The same without an exception for a token or a code that is not good.
   *
   * @throws InvalidArgumentError when the call is wrong, for instance because the token is no string
   * @example
   * const result = verifier.tryVerify(token, { action: "recover", code });
   * if (!result.ok) return new Response(result.code, { status: 403 });
   */
  tryVerify(token: string, expected: Expectation): Verification;
}

/** @internal What every entry calls `createVerifier`. */
export function makeVerifier(engine: Engine, options: unknown): Verifier {
  const ring = readRing(engine, options);

  function judge(token: unknown, expected: unknown): VerifiedToken | number {
    const [action, code] = readOptions(expected, ["action", "code"]);
    if (action !== "activate" && action !== "recover") {
      throw new InvalidArgumentError('the option action is "activate" or "recover"');
    }
    if (typeof token !== "string") throw new InvalidArgumentError("a token is a string");
    if (code !== undefined && typeof code !== "string") throw new InvalidArgumentError("a code is a string");
    let status = SIGNATURE;
    for (const key of ring) {
      status = engine.verify(token, action, code, key);
      if (status !== SIGNATURE) break;
    }
    return status === OK ? new VerifiedToken(engine, token, action) : status;
  }

  return Object.freeze<Verifier>({
    verify(token, expected) {
      const verdict = judge(token, expected);
      if (typeof verdict === "number") throw refusal(verdict);
      return verdict;
    },
    tryVerify(token, expected) {
      const verdict = judge(token, expected);
      return typeof verdict === "number" ? new RefusedToken(verdict) : { ok: true, token: verdict };
    },
  });
}

function readRing(engine: Engine, options: unknown): readonly PreparedKey[] {
  const [keys, allowed] = readOptions(options, ["keys", "dangerouslyAllowSecretInBrowser"]);
  if (allowed !== undefined && typeof allowed !== "boolean") {
    throw new InvalidArgumentError("the option dangerouslyAllowSecretInBrowser is true or false");
  }
  if (allowed !== true && inBrowserWindow()) {
    throw new SecretInBrowserError(
      "a shared key does not belong into a browser: whoever can read the page could forge links with it",
    );
  }
  return prepareRing(engine, keys);
}

function inBrowserWindow(): boolean {
  const { window } = globalThis as { window?: { document?: unknown } };
  return typeof window?.document === "object";
}
