// What is true of the package in Jest, whatever loaded it.
// `load` has a promise of each entry, by its name.

module.exports = function checks(load, { key, token }) {
  // In jsdom, too: its window is no page.
  const options = { keys: key };

  test("every entry is imported", async () => {
    const { exports: entries } = require("mailroom-verifier/package.json");
    const names = Object.keys(entries).filter((name) => !/\.(wasm|json)$/.test(name));
    expect(names.length).toBeGreaterThan(10);
    for (const name of names) {
      const entry = await load(name.replace(/^\./, "mailroom-verifier"));
      expect(Object.keys(entry).length).toBeGreaterThan(0);
    }
  });

  test("a token is verified, and redeemed once", async () => {
    const { createVerifier, createGuard, createMemoryStore } = await load("mailroom-verifier");
    const verifier = createVerifier(options);
    expect(verifier.verify(token, { action: "activate" }).secret).toHaveLength(32);
    const store = createMemoryStore({ capacity: 10 });
    const guard = createGuard({ verifier, store, v1RememberFor: 900 });
    expect(await guard.redeem(token, { action: "activate" }, () => "done")).toBe("done");
    const again = await guard.tryRedeem(token, { action: "activate" });
    expect(again).toEqual({
      ok: false,
      reason: "ERR_TOKEN_USED",
      kind: "visitor",
      message: "the token was used before",
    });
  });

  test("all entries share the classes of errors", async () => {
    const { TokenMalformedError, KeyInvalidError } = await load("mailroom-verifier/errors");
    const { createVerifier } = await load("mailroom-verifier");
    const publicEntry = await load("mailroom-verifier/public");
    expect(() => createVerifier(options).verify("", { action: "activate" })).toThrow(
      TokenMalformedError,
    );
    expect(() => publicEntry.createVerifier({ keys: "mrpk_" })).toThrow(KeyInvalidError);
  });
};
