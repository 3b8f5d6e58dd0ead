// The errors are the same classes wherever they come from, and say nothing that is secret.

import { holds, refusal, same } from "./expect.mjs";
import { altered, pair } from "./tokens.mjs";

const HELP = "https://github.com/mailroom/mailroom/blob/main/verifier-wasm/npm/errors.md#";
/** The refusals of a guard that are the visitor's fault, as all of a verifier are. */
const VISITORS = ["ERR_TOKEN_USED", "ERR_TOO_MANY_ATTEMPTS"];

export function* errors(subject) {
  const { createVerifier, vectors, options, others = {} } = subject;
  const { activation, recovery } = pair(vectors);
  const verifier = createVerifier({ keys: activation.key, ...options });
  const code = recovery.code;
  const refusals = {
    ERR_TOKEN_MALFORMED: () => verifier.verify("short", { action: "activate" }),
    ERR_TOKEN_SIGNATURE: () => verifier.verify(altered(activation.token), { action: "activate" }),
    ERR_CODE_UNCHECKABLE: () =>
      verifier.verifyWithUncountedCode(activation.token, { action: "activate", code }),
    ERR_CODE_REQUIRED: () => verifier.verify(recovery.token, { action: "recover" }),
    ERR_CODE_MALFORMED: () =>
      verifier.verifyWithUncountedCode(recovery.token, { action: "recover", code: "1234" }),
    ERR_INVALID_ARGUMENT: () => verifier.verify(activation.token, { action: "activation" }),
  };
  const classes = Object.entries(subject.errors).filter(([, value]) => typeof value === "function");

  for (const [expected, action] of Object.entries(refusals)) {
    yield [
      `${expected} names its class, also when class names were shortened`,
      () => {
        const error = refusal(subject, expected, "refused", action);
        same(error.constructor.reason, expected, "reason of the class");
        same(error.name, classes.find(([, type]) => type === error.constructor)?.[0], "name");
        holds(String(error).startsWith(`${error.name}: `), `${error} does not begin with its name`);
        holds(error.message.length > 10, "no message");
      },
    ];
    yield [
      `${expected} says nothing secret`,
      () => discreet(refusal(subject, expected, "refused", action), [activation, recovery]),
    ];
  }

  const { VerificationError } = subject.errors;
  yield [
    "every error says whose fault it is, as its class does, and where to read what to do",
    () => {
      for (const [name, Type] of classes.filter(([, type]) => type.reason !== undefined)) {
        const isVisitors =
          Type.prototype instanceof VerificationError || VISITORS.includes(Type.reason);
        const kind = isVisitors ? "visitor" : "operator";
        const error = new Type("message");
        same(error.kind, kind, name);
        same(Type.kind, kind, `the class ${name}`);
        const help = HELP + Type.reason.toLowerCase();
        same(
          JSON.stringify(error),
          JSON.stringify({ reason: Type.reason, kind, help }),
          `${name} as JSON`,
        );
      }
    },
  ];

  yield [
    "every reason has one class, which says it",
    () => {
      const reasons = classes
        .map(([, type]) => type.reason)
        .filter((reason) => reason !== undefined);
      same(new Set(reasons).size, reasons.length, "different reasons");
      holds(reasons.length >= 19, `${reasons.length} reasons`);
      holds(
        reasons.every((reason) => /^ERR(?:_[A-Z]+){2,}$/.test(reason)),
        reasons.join(),
      );
    },
  ];

  for (const [how, namespace] of Object.entries(others)) {
    yield [
      `${how} has the same classes`,
      () => {
        for (const [name, type] of classes) {
          if (name in namespace) {
            same(namespace[name], type, name);
          }
        }
        const other = namespace.createVerifier?.({ keys: activation.key, ...options });
        if (other !== undefined) {
          refusal(subject, "ERR_TOKEN_SIGNATURE", how, () =>
            other.verify(altered(activation.token), { action: "activate" }),
          );
        }
      },
    ];
  }
}

/** No link, code, key or secret is in any text of the error. */
export function discreet(error, links) {
  const said = [
    String(error),
    error.stack,
    JSON.stringify(error),
    ...Object.getOwnPropertyNames(error).map((name) => String(error[name])),
  ];
  const text = said.join("\n").toLowerCase();
  for (const { token, key, secret } of links) {
    for (const value of [token, key, secret]) {
      holds(!text.includes(value.toLowerCase()), `${error.reason} shows a token, key or secret`);
      holds(
        !text.includes(altered(value).toLowerCase()),
        `${error.reason} shows the refused token`,
      );
    }
  }
}
