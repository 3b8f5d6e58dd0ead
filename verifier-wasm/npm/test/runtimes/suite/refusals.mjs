// What `try…` answers is a plain object: it can be logged, serialised, compared, cloned and
// returned from a server action.

import { discreet } from "./errors.mjs";
import { holds, same } from "./expect.mjs";
import { altered, v2Pair } from "./tokens.mjs";

const SHOWN = "ok reason kind message";

export function* refusals(subject) {
  const { createVerifier, createGuard, errors, vectors2, options } = subject;
  const { activation, recovery } = v2Pair(vectors2);
  const verifier = createVerifier({
    keys: activation.key,
    clock: () => activation.now,
    ...options,
  });
  const activate = { action: "activate" };
  const recover = { action: "recover", code: recovery.code };
  const link = verifier.verifyLink(recovery.token, { action: "recover" });
  const cause = Object.assign(new Error("the store is away"), { socket: () => {} });
  const away = () => {
    throw cause;
  };
  const withStore = (store) => createGuard({ verifier, store });
  const asked = {
    ERR_TOKEN_SIGNATURE: () => verifier.tryVerify(altered(activation.token), activate),
    ERR_TOKEN_MALFORMED: () =>
      verifier.tryVerifyLink([activation.token, activation.token], activate),
    ERR_CODE_MALFORMED: () => link.tryWithUncountedCode(-2),
    ERR_CODE_MISMATCH: () =>
      verifier.tryVerifyWithUncountedCode(recovery.token, { ...recover, code: recovery.wrongCode }),
    ERR_TOKEN_USED: () => withStore({ consume: () => false }).tryRedeem(activation.token, activate),
    ERR_TOO_MANY_ATTEMPTS: () =>
      withStore({ consume: () => true, attempt: () => 6 }).tryRedeem(recovery.token, recover),
    ERR_STORE_UNAVAILABLE: () => withStore({ consume: away }).tryRedeem(activation.token, activate),
    ERR_STORE_FULL: () =>
      withStore({
        consume() {
          throw new errors.StoreFullError("full");
        },
      }).tryRedeem(activation.token, activate),
    ERR_GUARD_UNSUPPORTED: () =>
      withStore({ consume: () => true }).tryRedeem(recovery.token, recover),
  };

  for (const [reason, ask] of Object.entries(asked)) {
    yield [
      `${reason} is shown by whatever shows objects`,
      async () => {
        const refusal = await ask();
        same(Object.getPrototypeOf(refusal), Object.prototype, "prototype");
        same(Reflect.ownKeys(refusal).join(" "), SHOWN, "own properties");
        for (const copy of [
          JSON.parse(JSON.stringify(refusal)),
          { ...refusal },
          structuredClone(refusal),
        ]) {
          same(Reflect.ownKeys(copy).join(" "), SHOWN, "properties of a copy");
          same(copy.ok, false, "ok of a copy");
          same(copy.reason, reason, "reason of a copy");
          same(copy.kind, /STORE|GUARD/.test(reason) ? "operator" : "visitor", "kind of a copy");
          same(copy.message, errors.errorOf(refusal).message, "message of a copy");
        }
        discreet(errors.errorOf(refusal), [activation, recovery]);
      },
    ];
    yield [
      `${reason} has one error, and keeps it`,
      async () => {
        const refusal = await ask();
        const error = errors.errorOf(refusal);
        same(errors.errorOf(refusal), error, "the same error again");
        same(error.reason, reason, "reason");
        same(error.kind, refusal.kind, "kind");
        holds(
          Object.values(errors).includes(error.constructor),
          "the class is not one of ./errors",
        );
        same(error.cause, reason === "ERR_STORE_UNAVAILABLE" ? cause : undefined, "cause");
        const other = await ask();
        holds(errors.errorOf(other) !== error, "two refusals share an error");
      },
    ];
  }
}
