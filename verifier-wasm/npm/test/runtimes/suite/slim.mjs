// `./slim` on a module that the caller loaded behaves like the entry that brings its own.

import { refusal, same } from "./expect.mjs";
import { notStrings } from "./hostile.mjs";
import { altered, pair } from "./tokens.mjs";

// A module that exports nothing.
const ANOTHER_MODULE = [0, 97, 115, 109, 1, 0, 0, 0];

export function* slim(subject) {
  const { slimEntry, module, vectors, options } = subject;
  if (slimEntry === undefined) {
    return;
  }
  const { instantiate } = slimEntry;
  const { activation } = pair(vectors);
  const other = {
    ...activation,
    key: vectors.groups.find(({ key }) => key !== activation.key).key,
  };
  const activate = { action: "activate" };

  yield [
    "two instances of the module and two verifiers of one do not mix up their keys",
    () => {
      const [first, second] = [instantiate(module), instantiate(module)];
      const right = [first, first, second].map(({ createVerifier }) =>
        createVerifier({ keys: activation.key, ...options }),
      );
      const wrong = [first, second].map(({ createVerifier }) =>
        createVerifier({ keys: other.key, ...options }),
      );
      for (let turn = 0; turn < 10; turn += 1) {
        for (const verifier of right) {
          same(verifier.verify(activation.token, activate).action, "activate", "the right key");
        }
        for (const verifier of wrong) {
          refusal(subject, "ERR_TOKEN_SIGNATURE", "the other key", () =>
            verifier.verify(activation.token, activate),
          );
        }
      }
    },
  ];

  yield [
    "an instance that the caller made is taken, and shared by all who bring it",
    () => {
      const instance = new WebAssembly.Instance(module);
      const [first, second] = [instantiate(instance), instantiate(instance)];
      const right = first.createVerifier({ keys: activation.key, ...options });
      const wrong = second.createVerifier({ keys: other.key, ...options });
      for (let turn = 0; turn < 10; turn += 1) {
        same(right.verify(activation.token, activate).action, "activate", "the right key");
        refusal(subject, "ERR_TOKEN_SIGNATURE", "the other key", () =>
          wrong.verify(activation.token, activate),
        );
      }
    },
  ];

  yield [
    "calls that the end of the stack cuts off in the middle leave the instance working",
    () => {
      const { createVerifier, decodeUnverified } = instantiate(
        cutOff(new WebAssembly.Instance(module), "verify", [...Array(100)].fill("before")),
      );
      const verifier = createVerifier({ keys: activation.key, ...options });
      for (let turn = 0; turn < 100; turn += 1) {
        same(isCutOff(verifier, activation.token), true, "cut off");
      }
      for (let turn = 0; turn < 100; turn += 1) {
        same(verifier.verify(activation.token, activate).action, "activate", "a genuine link");
        same(decodeUnverified(activation.token).verified, false, "decodeUnverified");
      }
    },
  ];

  for (const moment of ["before", "after"]) {
    yield [
      `a key whose loading was cut off ${moment} it took effect stands for no other`,
      () => {
        // The first key is loaded, and what cuts the second one off leaves it unknown which of the
        // two the module has.
        const { createVerifier } = instantiate(
          cutOff(new WebAssembly.Instance(module), "load_key", [
            undefined,
            moment,
            undefined,
            moment,
          ]),
        );
        const right = createVerifier({ keys: activation.key, ...options });
        const wrong = createVerifier({ keys: other.key, ...options });
        same(right.verify(activation.token, activate).action, "activate", "the first key");
        same(isCutOff(wrong, activation.token), true, "cut off while the second key is loaded");
        same(right.verify(activation.token, activate).action, "activate", "the first key again");
        same(isCutOff(wrong, activation.token), true, "cut off once more");
        refusal(subject, "ERR_TOKEN_SIGNATURE", "the second key", () =>
          wrong.verify(activation.token, activate),
        );
        same(right.verify(activation.token, activate).action, "activate", "the first key at last");
      },
    ];
  }

  yield [
    "decodeUnverified needs no key",
    () =>
      same(
        instantiate(module).decodeUnverified(altered(activation.token)).verified,
        false,
        "verified",
      ),
  ];

  for (const [what, value] of [...notStrings("activate"), ["a text", "verifier.wasm"]]) {
    yield [
      `${what} instead of the module`,
      () => void refusal(subject, "ERR_INVALID_ARGUMENT", what, () => instantiate(value)),
    ];
  }
  yield [
    "an object with the prototype of an instance",
    () => {
      const empty = Object.create(WebAssembly.Instance.prototype);
      refusal(subject, "ERR_INVALID_ARGUMENT", "no instance", () => instantiate(empty));
    },
  ];
  if (canCompile()) {
    yield [
      "another module",
      () => {
        const another = new WebAssembly.Module(Uint8Array.from(ANOTHER_MODULE));
        refusal(subject, "ERR_INVALID_ARGUMENT", "a module", () => instantiate(another));
        const instance = new WebAssembly.Instance(another);
        refusal(subject, "ERR_INVALID_ARGUMENT", "an instance", () => instantiate(instance));
      },
    ];
  }
}

/** Whether the end of the stack cuts a verification off. */
function isCutOff(verifier, token) {
  try {
    verifier.verify(token, { action: "activate" });
  } catch (error) {
    return error instanceof RangeError;
  }
  return false;
}

/**
 * An instance of which some calls of one function end as they do where the engine finds no stack
 * for a function that they call: what they took of the module's own stack stays taken. Where
 * exactly that happens by itself differs from engine to engine; the `moments` say of the first
 * calls whether it is `"before"` or `"after"` they had their effect, or not at all.
 */
function cutOff(instance, name, moments) {
  const left = [...moments];
  const whole = instance.exports[name];
  const exports = {
    ...instance.exports,
    [name](...args) {
      const moment = left.shift();
      if (moment === undefined) {
        return whole(...args);
      }
      if (moment === "after") {
        whole(...args);
      }
      instance.exports.__stack_pointer.value -= 272;
      throw new RangeError("Maximum call stack size exceeded");
    },
  };
  return Object.create(instance, { exports: { value: exports } });
}

/** Workers may not compile while they answer. */
function canCompile() {
  try {
    return new WebAssembly.Module(Uint8Array.from(ANOTHER_MODULE)) instanceof WebAssembly.Module;
  } catch {
    return false;
  }
}
