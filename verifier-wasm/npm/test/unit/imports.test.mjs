// Environments that lack what most have: test environments, embedded engines, locked-down realms.

import assert from "node:assert/strict";
import { test } from "node:test";

import { genuine, load, run } from "./consumer.mjs";

const REMOVED = [
  "TextEncoder",
  "TextDecoder",
  "atob",
  "btoa",
  "crypto",
  "WebAssembly",
  "setTimeout",
];
const { token, key } = genuine.find(({ action }) => action === "activate");
const entries = Object.keys(load("mailroom-verifier/package.json").exports)
  .filter((name) => !/\.(?:wasm|json)$/.test(name))
  .map((name) => name.replace(".", "mailroom-verifier"));

/** Runs a program in a process without these globals, and returns what it leaves in `said`. */
async function without(names, program) {
  const remove = names.map((name) => `delete globalThis.${name};`).join("");
  // No import is hoisted before the removal.
  const text = `${remove}const said = {};\n${program}\nconsole.log(JSON.stringify(said));`;
  const { status, stdout, stderr } = await run(process.execPath, [
    "--input-type=module",
    "--eval",
    text,
  ]);
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

/** What the first use of everything says: "works", or the reason of a typed error. */
const USE = `
const attempt = async (use) => {
  try {
    return (await use()) ?? "works";
  } catch (error) {
    return error.reason ?? String(error.stack);
  }
};
const main = await import("mailroom-verifier");
const { createVerifier, createGuard, createMemoryStore, decodeUnverified } = main;
const entry = await import("mailroom-verifier/public");
const { instantiate } = await import("mailroom-verifier/slim");
const options = { keys: "${key}" }, expected = { action: "activate" };
said.decode = await attempt(() => void decodeUnverified("${token}"));
said.verify = await attempt(() => void createVerifier(options).verify("${token}", expected).secret);
said.public = await attempt(() => void entry.createVerifier({ keys: "mrpk_" }));
const web = await import("mailroom-verifier/web");
said.web = await attempt(async () =>
  (await web.createSharedVerifier(options).tryVerify("${token}", expected)).reason,
);
said.slim = await attempt(() => void instantiate(undefined));
const redeem = (store) => async () => {
  const verifier = createVerifier(options);
  const guard = createGuard({ verifier, store: store(), v1RememberFor: 900 });
  return (await guard.tryRedeem("${token}", expected)).reason;
};
said.memory = await attempt(redeem(() => createMemoryStore({ capacity: 10 })));
said.store = await attempt(redeem(() => ({ consume: async () => true })));
`;

const WORKS = {
  decode: "works",
  verify: "works",
  public: "ERR_KEY_INVALID",
  web: "works",
  slim: "ERR_INVALID_ARGUMENT",
  memory: "works",
  store: "works",
};
/** Where something does not work, how it says so. */
const REASONS = {
  WebAssembly: {
    ...{
      decode: "ERR_WASM_UNAVAILABLE",
      verify: "ERR_WASM_UNAVAILABLE",
      public: "ERR_WASM_UNAVAILABLE",
    },
    ...{ memory: "ERR_WASM_UNAVAILABLE", store: "ERR_WASM_UNAVAILABLE" },
  },
  crypto: {
    ...{ memory: "ERR_GUARD_UNSUPPORTED", store: "ERR_GUARD_UNSUPPORTED" },
    web: "ERR_PLATFORM_UNAVAILABLE",
  },
  setTimeout: { store: "ERR_STORE_UNAVAILABLE" },
};

test("with everything that others lack, everything works", async () => {
  assert.deepEqual(await without([], USE), WORKS);
});

for (const name of REMOVED) {
  test(`without ${name}, every entry is imported; the first use works or says why`, async () => {
    const imports = entries.map((entry) => `await import("${entry}");`).join("\n");
    assert.deepEqual(await without([name], imports + USE), { ...WORKS, ...REASONS[name] });
  });
}

test("without any of them, every entry is imported", async () => {
  const imports = entries
    .map((entry) => `said["${entry}"] = typeof (await import("${entry}"));`)
    .join("\n");
  assert.deepEqual(
    await without(REMOVED, imports),
    Object.fromEntries(entries.map((entry) => [entry, "object"])),
  );
});
