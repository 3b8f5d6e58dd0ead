// Values of another realm, such as those of a frame or of `node:vm`, count as what they are.

import { refusal, same } from "./expect.mjs";
import { altered, bytes, pair } from "./tokens.mjs";

export function* realm(subject) {
  const { createVerifier, vectors, options, otherRealm } = subject;
  if (otherRealm === undefined) {
    return;
  }
  const { activation } = pair(vectors);
  const foreign = Object.assign(new otherRealm.Object(), { action: "activate" });

  function works(keys) {
    const verifier = createVerifier(Object.assign(new otherRealm.Object(), { keys, ...options }));
    same(verifier.verify(activation.token, foreign).action, "activate", "action");
    refusal(subject, "ERR_TOKEN_SIGNATURE", "altered", () =>
      verifier.verify(altered(activation.token), foreign),
    );
  }

  yield [
    "bytes of another realm are a key",
    () => works(otherRealm.Uint8Array.from(bytes(activation.key))),
  ];
  yield [
    "a list of another realm is a ring",
    () =>
      works(
        otherRealm.Array.of("ab".repeat(32), otherRealm.Uint8Array.from(bytes(activation.key))),
      ),
  ];
  yield [
    "31 bytes of another realm are no key",
    () =>
      void refusal(subject, "ERR_KEY_INVALID", "31 bytes", () =>
        works(new otherRealm.Uint8Array(31)),
      ),
  ];
  yield [
    "a String object of another realm is no token",
    () => {
      const verifier = createVerifier({ keys: activation.key, ...options });
      const token = new otherRealm.String(activation.token);
      refusal(subject, "ERR_TOKEN_MALFORMED", "an object", () => verifier.verify(token, foreign));
    },
  ];
}
