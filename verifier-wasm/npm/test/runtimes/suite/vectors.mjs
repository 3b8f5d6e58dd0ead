// Every case of the shared vectors gives the verdict and the reason that the Rust core gives.

import { holds, refusal, same } from "./expect.mjs";
import { hex, judging } from "./tokens.mjs";

export function* vectors(subject) {
  const { createVerifier, vectors, options } = subject;
  for (const { key, action, tests } of vectors.groups) {
    const made = createVerifier({ keys: key, ...options });
    for (const { tcId, comment, token, code, result, error, secret, id } of tests) {
      const expected = code === null ? { action } : { action, code };
      const verifier = judging(made, expected);
      const name = `${tcId} ${action}: ${comment}`;
      if (result === "valid") {
        yield [
          name,
          () => {
            const answer = verifier.tryVerify(token, expected);
            same(answer.ok, true, "tryVerify");
            for (const verified of [verifier.verify(token, expected), answer.token]) {
              same(verified.version, 1, "version");
              same(verified.action, action, "action");
              same(hex(verified.secret), secret, "secret");
              same(hex(verified.consumedId), id, "consumedId");
            }
          },
        ];
      } else {
        yield [
          name,
          () => {
            refusal(subject, error, "verify", () => verifier.verify(token, expected));
            const answer = verifier.tryVerify(token, expected);
            same(answer.ok, false, "tryVerify");
            same(answer.reason, error, "reason of tryVerify");
            refusal(subject, error, "error of tryVerify", () => {
              throw subject.errors.errorOf(answer);
            });
            holds(!("token" in answer), "a refused token is returned");
          },
        ];
      }
    }
  }
}
