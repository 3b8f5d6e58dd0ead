// Genuine links out of the shared vectors, for tests that need some.

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Every genuine link: `{ key, action, token, code, secret, id }`. */
export function genuine(vectors) {
  return vectors.groups.flatMap(({ key, action, tests }) =>
    tests
      .filter(({ result }) => result === "valid")
      .map(({ token, code, secret, id }) => ({
        key,
        action,
        token,
        code: code ?? undefined,
        secret,
        id,
      })),
  );
}

/** A genuine link of each action under the same key. */
export function pair(vectors) {
  const [activation] = genuine(vectors).filter(({ action }) => action === "activate");
  const [recovery] = genuine(vectors).filter(
    ({ action, key }) => action === "recover" && key === activation.key,
  );
  return { activation, recovery };
}

/** A genuine link of v2 of each action under the same key, with the moment of its case. */
export function v2Pair(vectors2) {
  return expiring(vectors2, "key");
}

/** The same of v3. */
export function v3Pair(vectors3) {
  return expiring(vectors3, "public_key");
}

function expiring(vectors, keyName) {
  const [first] = vectors.groups;
  const one = (wanted) => {
    const group = vectors.groups.find(
      (group) => group.action === wanted && group[keyName] === first[keyName],
    );
    const {
      token,
      code,
      now,
      secret,
      id,
      expires_at: expiresAt,
    } = group.tests.find(({ result, comment }) => result === "valid" && comment === "genuine");
    const wrongCode = code === "00000" ? "11111" : "00000";
    const key = { key: group.key, publicKey: group.public_key };
    return {
      ...key,
      action: wanted,
      token,
      code: code ?? undefined,
      wrongCode,
      now,
      secret,
      id,
      expiresAt,
    };
  };
  return { activation: one("activate"), recovery: one("recover") };
}

/**
 * What judges a token so: with a code what says in its name that tries are not counted, of public
 * keys the link's.
 */
export function judging(verifier, expected) {
  if (!Object.hasOwn(expected, "code")) return verifier;
  const { verifyWithUncountedCode: verify, tryVerifyWithUncountedCode: tryVerify } = verifier;
  if (verify !== undefined) return { verify, tryVerify };
  return {
    verify: (token, { code, ...link }) => verifier.verifyLink(token, link).withUncountedCode(code),
    tryVerify(token, { code, ...link }) {
      const found = verifier.tryVerifyLink(token, link);
      return found.ok ? found.link.tryWithUncountedCode(code) : found;
    },
  };
}

/**
 * The same link with one character replaced by another of the alphabet; `at` must not be the last.
 */
export function altered(token, at = 70) {
  const next = ALPHABET[(ALPHABET.indexOf(token[at]) + 1) % ALPHABET.length];
  return token.slice(0, at) + next + token.slice(at + 1);
}

export function bytes(hex) {
  return Uint8Array.from(hex.match(/../g), (pair) => Number.parseInt(pair, 16));
}

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
