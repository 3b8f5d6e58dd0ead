// A shared key in the window of a browser is refused unless the caller says that it is meant.

import { refusal, same } from "./expect.mjs";
import { pair } from "./tokens.mjs";

export function* browserWindow(subject) {
  const { createVerifier, vectors, inWindow } = subject;
  const { activation } = pair(vectors);
  const keys = activation.key;

  function works(options) {
    const verified = createVerifier({ keys, ...options }).verify(activation.token, {
      action: "activate",
    });
    same(verified.action, "activate", "action");
  }

  yield [
    "a shared key is taken when the caller means it",
    () => works({ dangerouslyAllowSecretInBrowser: true }),
  ];

  if (inWindow) {
    yield [
      "a shared key is refused",
      () =>
        refusal(subject, "ERR_SECRET_IN_BROWSER", "without the option", () =>
          createVerifier({ keys }),
        ),
    ];
    for (const value of [false, undefined]) {
      yield [
        `a shared key is refused when the option is ${value}`,
        () => {
          const given = { keys, dangerouslyAllowSecretInBrowser: value };
          refusal(subject, "ERR_SECRET_IN_BROWSER", "option", () => createVerifier(given));
        },
      ];
    }
  } else {
    yield ["a shared key needs no permission", () => works({})];
    yield [
      "a shared key needs no permission when the option is false",
      () => works({ dangerouslyAllowSecretInBrowser: false }),
    ];
  }
  for (const value of [null, 1, 0, "true", "", {}, []]) {
    yield [
      `the option may not be ${JSON.stringify(value)}`,
      () => {
        const given = { keys, dangerouslyAllowSecretInBrowser: value };
        const codes = ["ERR_INVALID_ARGUMENT", ...(inWindow ? ["ERR_SECRET_IN_BROWSER"] : [])];
        refusal(subject, codes, "option", () => createVerifier(given));
      },
    ];
  }
}
