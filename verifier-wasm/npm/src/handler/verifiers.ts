import type { VerificationReason } from "../errors/errors.js";
import { FOR_PUBLIC_KEY, FOR_SHARED_KEY, KEY_UNKNOWN } from "../errors/generated/sentences.js";
import type { GuardedVerifier } from "../guard/options.js";
import { bytesIn } from "../token/binary.js";

/** What a verifier answers when it refuses. */
export interface VerifierRefusal {
  readonly reason: VerificationReason;
  readonly message: string;
}

/** By what a refusal says: what the operator has to do. */
const CURES: ReadonlyMap<string, string> = new Map([
  [
    FOR_PUBLIC_KEY,
    "a link of v3 came, and no verifier has public keys: give the option verifier a list, " +
      "with one of mailroom-verifier/public",
  ],
  [
    FOR_SHARED_KEY,
    "a link of v1 or v2 came, and no verifier has shared keys: give the option verifier a list, " +
      "with one of mailroom-verifier",
  ],
  [
    KEY_UNKNOWN,
    "a link came that names a key that no verifier has: " +
      "give the verifiers the key that the collector signs with, beside the others",
  ],
]);

/**
 * What only the operator can mend, such as a key that is missing: a visitor must not read that the
 * link is not valid. Nothing is proven of such a link, so anybody can cause this.
 */
export function cureOf({ message }: VerifierRefusal): string | undefined {
  return CURES.get(message);
}

/** Several verifiers as one: each link is judged by the first that has keys for it. */
export function combined(verifiers: readonly GuardedVerifier<string>[]): GuardedVerifier<string> {
  const [first, ...others] = verifiers as readonly [GuardedVerifier<string>];
  function judged<Found extends { readonly ok: true } | ({ readonly ok: false } & VerifierRefusal)>(
    judge: (verifier: GuardedVerifier<string>) => Found,
  ): Found {
    let found = judge(first);
    for (const verifier of others) {
      if (found.ok || cureOf(found) === undefined) break;
      const next = judge(verifier);
      // Of two that have no key, the one that knows the format says more.
      if (next.ok || (next.message !== FOR_PUBLIC_KEY && next.message !== FOR_SHARED_KEY))
        found = next;
    }
    return found;
  }
  return {
    tryVerifyLink: (token, expected) =>
      judged((verifier) => verifier.tryVerifyLink(token, expected)),
    tryVerify: (token, expected) => judged((verifier) => verifier.tryVerify(token, expected)),
    clockTolerance: Math.max(...verifiers.map(({ clockTolerance }) => clockTolerance)),
  };
}

/** Whether a token of v2 or v3 says that it has expired; nothing of that is proven. */
export function hasExpired(token: string): boolean {
  try {
    const expiresAt = bytesIn(token.slice(0, 20))
      .slice(6, 14)
      .reduce((time, byte) => time * 256 + byte, 0);
    return expiresAt < Date.now() / 1000;
  } catch {
    return false;
  }
}
