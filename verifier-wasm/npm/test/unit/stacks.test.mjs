// Where the stack of an error begins: at the line of the program that made the call.

import assert from "node:assert/strict";
import { test } from "node:test";

import { genuine, load } from "./consumer.mjs";

const { createVerifier, createGuard } = load("mailroom-verifier");
const guards = load("mailroom-verifier/guard");
const publicEntry = load("mailroom-verifier/public");
const { key } = genuine.find(({ action }) => action === "activate");
const verifier = createVerifier({ keys: key });

const calls = {
  "createVerifier of a key that is none": () => createVerifier({ keys: "none" }),
  "createVerifier of a public key that is none": () => publicEntry.createVerifier({ keys: "none" }),
  "createGuard without a store": () => createGuard({ verifier }),
  "createGuard of its own entry": () => guards.createGuard({ verifier }),
  "verify of a token that is none": () => verifier.verify("none", { action: "activate" }),
  "verify without an action": () => verifier.verify("none", {}),
  "verifyLink of a token that is none": () => verifier.verifyLink("none", { action: "activate" }),
  "verifyWithUncountedCode of a token that is none": () =>
    verifier.verifyWithUncountedCode("none", { action: "recover", code: "00000" }),
};

for (const [name, call] of Object.entries(calls)) {
  test(`the stack of ${name} begins with the line of the program`, () => {
    assert.throws(call, (error) => {
      const [first] = error.stack.split("\n").filter((line) => line.startsWith("    at "));
      assert.match(first, /stacks\.test\.mjs/);
      return true;
    });
  });
}
