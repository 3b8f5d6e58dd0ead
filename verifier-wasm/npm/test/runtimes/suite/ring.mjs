// A list of keys is a ring: the first is the current one, every one verifies.

import { holds, refusal, same } from "./expect.mjs";
import { altered, bytes, genuine, judging } from "./tokens.mjs";

export function* ring(subject) {
  const { createVerifier, vectors, options } = subject;
  const links = genuine(vectors);
  const keys = [...new Set(links.map(({ key }) => key))];
  const strangers = Array.from({ length: 6 }, (_, number) =>
    (number + 1).toString(16).repeat(64).slice(0, 64),
  );
  const verifies = (verifier, { token, action, code }) => {
    const expected = code === undefined ? { action } : { action, code };
    return judging(verifier, expected).verify(token, expected);
  };
  const verifiesAll = (verifier) => {
    for (const link of links) {
      same(verifies(verifier, link).action, link.action, "action");
    }
  };

  yield ["the vectors have links of two keys", () => same(keys.length, 2, "keys")];

  yield [
    "a link of any key of the ring is accepted, wherever the key stands",
    () => {
      for (const order of [
        [...keys],
        keys.toReversed(),
        [...strangers, ...keys],
        [keys[0], ...strangers, keys[1]],
      ]) {
        verifiesAll(createVerifier({ keys: order, ...options }));
      }
    },
  ];

  yield [
    "a link of no key of the ring is refused",
    () => {
      for (const key of keys) {
        const verifier = createVerifier({ keys: [key, ...strangers], ...options });
        for (const link of links) {
          if (link.key === key) {
            verifies(verifier, link);
          } else {
            refusal(subject, "ERR_TOKEN_SIGNATURE", "a link of another key", () =>
              verifies(verifier, link),
            );
          }
        }
      }
    },
  ];

  yield [
    "keys may be texts and bytes in one ring",
    () => {
      verifiesAll(createVerifier({ keys: [keys[0].toUpperCase(), bytes(keys[1])], ...options }));
    },
  ];

  yield [
    "a key given twice is a ring of one",
    () => {
      const verifier = createVerifier({ keys: [keys[0], keys[0]], ...options });
      const link = links.find(({ key }) => key === keys[0]);
      verifies(verifier, link);
      const forged = { ...link, token: altered(link.token) };
      refusal(subject, "ERR_TOKEN_SIGNATURE", "an altered link", () => verifies(verifier, forged));
    },
  ];

  yield [
    "a ring of 1024 keys verifies with its last",
    () => {
      const many = Array.from({ length: 1024 }, (_, number) =>
        number.toString(16).padStart(64, "0"),
      );
      const verifier = createVerifier({ keys: [...many.slice(1), keys[0]], ...options });
      for (const link of links) {
        if (link.key === keys[0]) {
          verifies(verifier, link);
        } else {
          refusal(subject, "ERR_TOKEN_SIGNATURE", "a link of another key", () =>
            verifies(verifier, link),
          );
        }
      }
    },
  ];

  yield [
    "verifiers used in turns do not mix up their keys",
    () => {
      const verifiers = keys.map((key) => createVerifier({ keys: key, ...options }));
      for (let turn = 0; turn < 100; turn += 1) {
        for (const link of links) {
          verifiers.forEach((verifier, index) => {
            if (keys[index] === link.key) {
              verifies(verifier, link);
            } else {
              refusal(subject, "ERR_TOKEN_SIGNATURE", "a link of another key", () =>
                verifies(verifier, link),
              );
            }
          });
        }
      }
    },
  ];

  yield [
    "the verifier keeps its own copy of keys and list",
    () => {
      const link = links[0];
      const key = bytes(link.key);
      const list = [key];
      const verifier = createVerifier({ keys: list, ...options });
      key.fill(0);
      list.length = 0;
      verifies(verifier, link);
      const zeros = createVerifier({ keys: "00".repeat(32), ...options });
      refusal(subject, "ERR_TOKEN_SIGNATURE", "a link of the key before", () =>
        verifies(zeros, link),
      );
    },
  ];

  yield [
    "a verifier shows no key when it is printed",
    () => {
      const verifier = createVerifier({ keys, ...options });
      const seen = [
        JSON.stringify(verifier),
        String(verifier),
        ...Object.values(verifier).map(String),
      ].join("\n");
      holds(!keys.some((key) => seen.includes(key)), "a key appears");
      holds(
        Reflect.ownKeys(verifier).every(
          (name) => typeof verifier[name] === "function" || name === "clockTolerance",
        ),
        "the verifier has other properties than methods and its tolerance",
      );
    },
  ];
}
