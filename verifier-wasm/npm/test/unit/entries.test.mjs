// Entries that carry no module, and what they are put on.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { consumer, genuine, installed, load, repository, run } from "./consumer.mjs";

const { exports: entries } = load("mailroom-verifier/package.json");
const text = (entry) => readFileSync(join(installed, entry), "utf8");
const compiled = (entry) =>
  new WebAssembly.Module(readFileSync(load.resolve(`mailroom-verifier/${entry}`)));

test(
  "the guard of its own entry redeems what a verifier of another entry proves, " +
    "and carries no module",
  async () => {
    const { createGuard, ...others } = load("mailroom-verifier/guard");
    assert.deepEqual(others, {});
    const bundle = text(entries["./guard"].default);
    assert.ok(
      !/WebAssembly|aagbhdgn/.test(bundle) && bundle.length < 40_000,
      String(bundle.length),
    );
    const { createVerifier, createMemoryStore } = load("mailroom-verifier");
    const { token, key } = genuine.find(({ action }) => action === "activate");
    const store = createMemoryStore({ capacity: 10 });
    const guard = createGuard({
      verifier: createVerifier({ keys: key }),
      store,
      v1RememberFor: 900,
    });
    assert.equal((await guard.tryRedeem(token, { action: "activate" })).ok, true);
    assert.equal((await guard.tryRedeem(token, { action: "activate" })).reason, "ERR_TOKEN_USED");
  },
);

test("each kind of verifier starts on its own module, and not on the other one", () => {
  const { instantiate, instantiatePublic } = load("mailroom-verifier/slim");
  const { groups } = JSON.parse(readFileSync(join(repository, "tests/vectors/v3.json"), "utf8"));
  const [{ public_key, action, tests }] = groups;
  const { token, now } = tests.find(({ result }) => result === "valid");
  const verifier = instantiatePublic(compiled("public.wasm")).createVerifier({
    keys: Buffer.from(public_key, "hex"),
    clock: () => now,
  });
  assert.equal(verifier.tryVerifyLink(token, { action }).ok, true);
  for (const refused of [
    () => instantiate(compiled("public.wasm")),
    () => instantiatePublic(compiled("verifier.wasm")),
  ]) {
    assert.throws(refused, { reason: "ERR_INVALID_ARGUMENT" });
  }
  const instance = new WebAssembly.Instance(compiled("verifier.wasm"));
  instantiate(instance);
  assert.throws(() => instantiatePublic(instance), { reason: "ERR_INVALID_ARGUMENT" });
});

test("a window that a library has made on a server is no page, that of Electron is", async () => {
  const { key } = genuine.find(({ action }) => action === "activate");
  const page = "globalThis.window = globalThis; globalThis.document = {};";
  const worker = "globalThis.importScripts = () => {};";
  const polyfill = "globalThis.process = { versions: {}, env: {}, browser: true };";
  for (const [setting, isPage] of [
    ["", false],
    [page, false],
    [worker, false],
    [`${page} Object.defineProperty(process.versions, "electron", { value: "40.0.0" });`, true],
    [`${worker} Object.defineProperty(process.versions, "electron", { value: "40.0.0" });`, true],
    [`${page} Object.defineProperty(process.versions, "nw", { value: "0.100.0" });`, true],
    [`${page} ${polyfill}`, true],
    [`${page} ${polyfill} process.versions.node = "20.0.0";`, true],
    [`${page} delete globalThis.process;`, true],
  ]) {
    const program = `const { log } = console;
${setting}
try {
  require("mailroom-verifier").createVerifier({ keys: "${key}" });
  log("made");
} catch ({ reason }) {
  log(reason);
}`;
    const { stdout, stderr } = await run(process.execPath, ["--eval", program], { cwd: consumer });
    assert.equal(stdout, isPage ? "ERR_SECRET_IN_BROWSER\n" : "made\n", setting + stderr);
  }
});

test("where frameworks import modules, no bytes are compiled", () => {
  for (const [entry, module] of [
    [".", "verifier"],
    ["./public", "public"],
  ]) {
    // The first condition that holds counts, and Nitro sets all of them.
    assert.deepEqual(Object.keys(entries[entry]).slice(0, 4), [
      "types",
      "unwasm",
      "edge-light",
      "workerd",
    ]);
    const { unwasm, "edge-light": edge, workerd } = entries[entry];
    assert.equal(unwasm, edge);
    assert.match(text(edge), new RegExp(`from "\\./${module}\\.wasm\\?module";`));
    assert.match(text(workerd), new RegExp(`from "\\./${module}\\.wasm";`));
    assert.doesNotMatch(text(edge) + text(workerd), /new WebAssembly\.Module\(/);
  }
});
