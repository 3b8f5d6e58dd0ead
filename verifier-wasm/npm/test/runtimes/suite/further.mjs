// Further actions: every case of their shared vectors, what `defineActions` and the option refuse,
// and a guard that redeems them.

import { defineActions } from "../defining.mjs";
import { holds, refusal, same } from "./expect.mjs";
import { cases, manyKeys, publicVerifiers, text } from "./formats.mjs";

/** The further actions of a group, as the option has them. */
export const optionOf = (group) => defineActions(definitionsOf(group));

function definitionsOf({ actions }) {
  const further = Object.entries(actions).filter(([, { number }]) => number > 2);
  return Object.fromEntries(
    further.map(([name, { number, digits }]) => [name, { number, path: `/${name}`, digits }]),
  );
}

export function* actions(subject) {
  yield* ofActions(subject, subject.vectorsOfActions);
}

/** Every case of vectors whose groups say which actions are known. */
export function* ofActions(subject, vectors) {
  const { createVerifier, publicEntry, options } = subject;
  const ofVersion = (wanted) => ({
    groups: vectors.groups.filter(({ version }) => version === wanted),
  });
  yield* cases(subject, ofVersion(2), (group, clock) => {
    const given = { actions: optionOf(group), clock, ...options };
    return [
      createVerifier({ keys: group.key, ...given }),
      createVerifier({ keys: [...manyKeys(), group.key], accept: ["v2"], ...given }),
    ];
  });
  if (publicEntry === undefined) return;
  yield* cases(subject, ofVersion(3), (group, clock) =>
    publicVerifiers(
      publicEntry,
      group,
      { actions: optionOf(group), clock },
      text(group.public_key),
    ),
  );
}

/** The genuine link of an action in v2, and what judges it. */
export function scene({ createVerifier, vectorsOfActions, options }, wanted) {
  const group = vectorsOfActions.groups.find(
    ({ version, action }) => version === 2 && action === wanted,
  );
  const { token, code, now } = group.tests.find(({ comment }) => comment === "genuine");
  const clock = () => now;
  const made = (actions) =>
    createVerifier({
      keys: group.key,
      clock,
      ...(actions && { actions: defineActions(actions) }),
      ...options,
    });
  return { token, code: code ?? undefined, further: definitionsOf(group), made };
}

export function* actionOptions(subject) {
  const { createGuard, createMemoryStore, decodeUnverified } = subject;
  yield [
    "verifiers that know other actions do not change each other",
    () => {
      const { token, further, made } = scene(subject, "invite");
      const [knowing, other] = [made(further), made()];
      const { invite: _, ...fewer } = further;
      const without = made({ ...fewer, other: { number: 9, path: "/other", digits: 0 } });
      const sixDigits = made({ ...fewer, invite: { number: 4, path: "/invite", digits: 6 } });
      for (let round = 0; round < 3; round++) {
        same(knowing.tryVerify(token, { action: "invite" }).ok, true, "an action that is known");
        same(
          knowing.tryVerify(token, { action: "activate" }).reason,
          "ERR_TOKEN_ACTION",
          "another action",
        );
        same(
          other.tryVerify(token, { action: "activate" }).reason,
          "ERR_TOKEN_MALFORMED",
          "an unknown action",
        );
        same(
          without.tryVerify(token, { action: "other" }).reason,
          "ERR_TOKEN_MALFORMED",
          "another list",
        );
        same(
          sixDigits.tryVerifyLink(token, { action: "invite" }).reason,
          "ERR_TOKEN_MALFORMED",
          "another length",
        );
      }
      const said = refusal(subject, "ERR_INVALID_ARGUMENT", "an unknown name", () =>
        other.verify(token, { action: "invite" }),
      );
      same(said.message, "wrong: action", "message");
      const { unverifiedAction, unverifiedActionNumber } = decodeUnverified(token);
      same(unverifiedAction, undefined, "unverifiedAction");
      same(unverifiedActionNumber, 4, "unverifiedActionNumber");
    },
  ];
  yield [
    "a change of the option afterwards changes nothing",
    () => {
      const { token, further, made } = scene(subject, "invite");
      const verifier = made(further);
      further.invite.number = 9;
      delete further.sign_in;
      same(verifier.tryVerify(token, { action: "invite" }).ok, true, "tryVerify");
    },
  ];
  if (createMemoryStore !== undefined) {
    yield [
      "a guard lets a further action through once and counts the tries of its code",
      async () => {
        const { token, further, made } = scene(subject, "invite");
        const guard = createGuard({
          verifier: made(further),
          store: createMemoryStore({ capacity: 10 }),
        });
        const redeemed = await guard.tryRedeem(token, { action: "invite" });
        same(redeemed.token?.action, "invite", "action");
        same(
          (await guard.tryRedeem(token, { action: "invite" })).reason,
          "ERR_TOKEN_USED",
          "second use",
        );

        const change = scene(subject, "change_email");
        const expected = (code) => ({ action: "change_email", code });
        const redeem = (code) => guard.tryRedeem(change.token, expected(code));
        same(change.code.length, 6, "digits");
        const link = change
          .made(change.further)
          .verifyLink(change.token, { action: "change_email" });
        same(link.codeDigits, 6, "codeDigits");
        same((await redeem(undefined)).reason, "ERR_CODE_REQUIRED", "no code");
        for (const malformed of ["12345", "1234567", "12345a", "", "\u0661".repeat(6)]) {
          same((await redeem(malformed)).reason, "ERR_CODE_MALFORMED", malformed);
        }
        const wrong = change.code === "000000" ? "111111" : "000000";
        for (let tried = 0; tried < 5; tried++)
          same((await redeem(wrong)).reason, "ERR_CODE_MISMATCH", "wrong");
        same((await redeem(change.code)).reason, "ERR_TOO_MANY_ATTEMPTS", "too many");
      },
    ];
  }

  const invite = { number: 4, path: "/invite", digits: 0 };
  const getter = (name, value) =>
    Object.defineProperty({ ...invite }, name, { get: () => value, enumerable: true });
  const refused = [
    ["null", null],
    ["a list", [invite]],
    ["a name", "invite"],
    ["a function", () => ({ invite })],
    ["a Map", new Map([["invite", invite]])],
    ["nothing", {}],
    ["nothing without a prototype", Object.create(null)],
    ["upper case", { Invite: invite }],
    ["a hyphen", { "in-vite": invite }],
    ["an empty name", { "": invite }],
    ["a long name", { ["n".repeat(64)]: invite }],
    ["a symbol", { [Symbol("invite")]: invite }],
    ["activate", { activate: { number: 1, path: "/activate", digits: 0 } }],
    ["recover", { recover: { ...invite, digits: 5 } }],
    ["a name of the database", { activation: invite }],
    ["no definition", { invite: undefined }],
    ["a number alone", { invite: 4 }],
    ["no path", { invite: { number: 4, digits: 0 } }],
    ["an unknown key", { invite: { ...invite, code: 5 } }],
    ["a misspelt key", { invite: { number: 4, path: "/invite", digit: 0 } }],
    ["an inherited definition", { invite: Object.create(invite) }],
    ["a getter of the definition", { invite: getter("number", 4) }],
    [
      "a getter of the list",
      Object.defineProperty({}, "invite", { get: () => invite, enumerable: true }),
    ],
    ["two of one number", { invite, other: { ...invite, path: "/other" } }],
    ["two of one path", { invite, other: { ...invite, number: 5 } }],
    [
      "a proxy that throws",
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error("on purpose");
          },
        },
      ),
    ],
    ...[1, 2, 0, -4, 128, 4.5, NaN, "4", 4n, true].map((number) => [
      `number ${String(number)}`,
      { invite: { ...invite, number } },
    ]),
    ...[1, 4, 9, -0.5, 5.5, NaN, "0", null, false].map((digits) => [
      `digits ${String(digits)}`,
      { invite: { ...invite, digits } },
    ]),
    ...[
      "",
      "/",
      "invite",
      "/a/",
      "//a",
      "/a b",
      "/a?b",
      "/%41",
      "/..",
      "/a/./b",
      "/activate",
      "/recover",
      `/${"p".repeat(255)}`,
      4,
      null,
    ].map((path) => [`path ${String(path).slice(0, 20)}`, { invite: { ...invite, path } }]),
  ];
  yield [
    "definitions are checked once, and are an option only then",
    () => {
      const { token, further, made } = scene(subject, "invite");
      const defined = defineActions(further);
      same(JSON.stringify(defined), JSON.stringify(further), "definitions");
      holds(Object.isFrozen(defined) && Object.isFrozen(defined.invite), "frozen");
      same(made(defined).tryVerify(token, { action: "invite" }).ok, true, "defined again");
      const copy = { ...defined };
      refusal(subject, "ERR_INVALID_ARGUMENT", "a copy", () =>
        subject.createVerifier({ keys: new Uint8Array(32), actions: copy, ...subject.options }),
      );
      same(made(copy).tryVerify(token, { action: "invite" }).ok, true, "a copy, defined again");
    },
  ];
  for (const [name, actions] of refused) {
    yield [
      `further actions: ${name}`,
      () => {
        const { reason, message } = thrown(() => defineActions(actions)) ?? {};
        same(reason, "ERR_INVALID_ARGUMENT", name);
        holds(/^wrong: actions\b/.test(message), message);
        // Nothing but what was defined is an option.
        const error = refusal(subject, "ERR_INVALID_ARGUMENT", name, () => {
          subject.createVerifier({ keys: new Uint8Array(32), actions, ...subject.options });
        });
        same(error.message, "wrong: actions", "message");
      },
    ];
  }
}

/** What it throws: the errors of another entry may be of another copy of the package. */
function thrown(act) {
  try {
    act();
  } catch (error) {
    return error;
  }
  return undefined;
}
