// The actions that the package exports are those of the schema.

import { same } from "../runtimes/suite/expect.mjs";

export function* actions(scene, load) {
  const { SHIPPED_ACTIONS, FURTHER_ACTIONS } = load("database");
  yield [
    "they are the rows of the schema",
    async () => {
      const rows = await scene.rows(
        "SELECT name, number, path, code_digits AS digits FROM mailroom.actions " +
          "WHERE number < 100 ORDER BY number",
      );
      const shipped = Object.entries(SHIPPED_ACTIONS).map(([name, { number, path, digits }]) => ({
        name,
        number,
        path: path ?? null,
        digits,
      }));
      same(JSON.stringify(shipped), JSON.stringify(rows), "actions");
    },
  ];
  yield [
    "a verifier takes those that have links beside its own",
    () => {
      const verifier = load(".").createVerifier({
        keys: "07".repeat(32),
        actions: FURTHER_ACTIONS,
      });
      same(verifier.tryVerify("", { action: "invite" }).reason, "ERR_TOKEN_MALFORMED", "reason");
      const withLinks = Object.entries(SHIPPED_ACTIONS).filter(
        ([, { path }]) => path !== undefined,
      );
      const names = ["activate", "recover", ...Object.keys(FURTHER_ACTIONS)];
      same(withLinks.map(([name]) => name).join(), names.join(), "names");
    },
  ];
}
