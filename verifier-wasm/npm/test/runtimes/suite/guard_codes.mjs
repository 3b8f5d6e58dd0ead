// Codes that are tried with a guard: how many get a verdict, and which take no number.

import { same } from "./expect.mjs";
import { sceneOfGuard } from "./guard_scene.mjs";

export function* guardCodes(subject) {
  const { recovery, recover, wrong, memory, stores, make } = sceneOfGuard(subject);

  for (const [what, store] of stores) {
    yield [
      `of 10,000 guesses at once five get a verdict, and no more for the right code, in ${what}`,
      async () => {
        const { tryRedeem } = make(store());
        const codes = Array.from({ length: 100_000 }, (_, number) =>
          String(number).padStart(5, "0"),
        );
        const guesses = codes.filter((code) => code !== recovery.code).slice(0, 9_999);
        const verdicts = await Promise.all(
          guesses.map((code) => tryRedeem(recovery.token, { action: "recover", code })),
        );
        verdicts.push(await tryRedeem(recovery.token, recover));
        const count = (reason) => verdicts.filter((verdict) => verdict.reason === reason).length;
        same(count("ERR_CODE_MISMATCH"), 5, "verdicts");
        same(count("ERR_TOO_MANY_ATTEMPTS"), 9_995, "refused without one");
      },
    ];
  }

  yield [
    "the right code recovers within the tries that are allowed, and not after them",
    async () => {
      for (const [maxCodeAttempts, tries, reason] of [
        [undefined, 4, undefined],
        [undefined, 5, "ERR_TOO_MANY_ATTEMPTS"],
        [1, 0, undefined],
        [1, 1, "ERR_TOO_MANY_ATTEMPTS"],
        [7, 6, undefined],
      ]) {
        const { tryRedeem } = make(memory(), { maxCodeAttempts });
        for (let time = 0; time < tries; time += 1) {
          same(
            (await tryRedeem(recovery.token, wrong)).reason,
            "ERR_CODE_MISMATCH",
            "a wrong code",
          );
        }
        const result = await tryRedeem(recovery.token, recover);
        same(
          result.reason,
          reason,
          `after ${tries} wrong codes of ${maxCodeAttempts ?? 5} allowed`,
        );
        same(result.ok && result.token.codeIsProven, reason === undefined, "codeIsProven");
      }
    },
  ];

  yield [
    "a missing or malformed code takes no number",
    async () => {
      const { tryRedeem } = make(memory(), { maxCodeAttempts: 1 });
      same(
        (await tryRedeem(recovery.token, { action: "recover" })).reason,
        "ERR_CODE_REQUIRED",
        "no code",
      );
      for (const code of [
        "",
        "4711",
        "047111",
        "0471a",
        " 4711",
        "0471\n",
        "\u0660\u0661\u0662\u0663\u0664",
      ]) {
        const { reason: found } = await tryRedeem(recovery.token, { action: "recover", code });
        same(found, "ERR_CODE_MALFORMED", JSON.stringify(code));
      }
      same((await tryRedeem(recovery.token, recover)).ok, true, "the right code");
    },
  ];
}
