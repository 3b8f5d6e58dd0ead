// A connection that is cut at any command of a redemption: the callback takes effect once, no use
// comes back, no try counts twice, and no link stays used for nothing.

import { same } from "../runtimes/suite/expect.mjs";

/** How long a command is waited for, in milliseconds. */
const PATIENCE = 120_000;

const activate = { action: "activate" };
const WRONG = "99999";
const TRIES = 5;
/** Above the commands that a redemption sends, those after a cut included. */
const COMMANDS = { redeem: 3, release: 4, guess: 6, withdraw: 3 };

/**
 * @param {object} verifierPackage the namespace of the package
 * @param {() => { key: string, code: string, activation: string, recovery: string }} freshLinks
 * @param {{ cut(number: number, moment: string): void, cuts: number }} proxy
 * in front of `interrupted`
 * @param {object} interrupted a store through the proxy
 * @param {object} steady a store on the same backend, directly
 */
export function* interruptions(
  { createVerifier, createGuard },
  freshLinks,
  proxy,
  interrupted,
  steady,
) {
  const guards = (key, more) => {
    const verifier = createVerifier({ keys: key });
    const guardOf = (store) => createGuard({ verifier, store, storeTimeout: 60, ...more });
    return [guardOf(interrupted), guardOf(steady)];
  };
  /** Runs a scene once for each command that may be cut; returns how many of those were. */
  const atEveryCommand = async (most, moment, scene) => {
    let cut = 0;
    for (let number = 1; number <= most; number += 1) {
      proxy.cut(number, moment);
      await scene(`cut ${moment} command ${number}`);
      cut += proxy.cuts;
    }
    return cut;
  };

  for (const moment of ["before", "after"]) {
    yield [
      `a redemption whose connection is cut ${moment} a command takes effect once`,
      async () => {
        const cut = await atEveryCommand(COMMANDS.redeem, moment, async (what) => {
          const { key, activation } = freshLinks();
          const [first, second] = guards(key);
          let effects = 0;
          const effect = () => {
            effects += 1;
          };
          const result = await first.tryRedeem(activation, activate, effect);
          same(effects, result.ok ? 1 : 0, `effects of the first, ${what}`);
          const again = await second.tryRedeem(activation, activate, effect);
          same(effects, 1, `effects, ${what}`);
          same(again.reason, result.ok ? "ERR_TOKEN_USED" : undefined, `the second, ${what}`);
          same(
            (await first.tryRedeem(activation, activate, effect)).reason,
            "ERR_TOKEN_USED",
            `the third, ${what}`,
          );
          same(effects, 1, `effects, ${what}`);
        });
        same(cut >= 1, true, "something was cut");
      },
    ];
    yield [
      `a callback fails and the connection is cut ${moment} a command: the link works once more`,
      async () => {
        const cut = await atEveryCommand(COMMANDS.release, moment, async (what) => {
          const { key, activation } = freshLinks();
          const [first, second] = guards(key);
          const failed = new Error("origin is down");
          const fail = () => Promise.reject(failed);
          same(
            await first.redeem(activation, activate, fail).catch((error) => error),
            failed,
            `the first, ${what}`,
          );
          let effects = 0;
          const effect = () => {
            effects += 1;
          };
          const results = await Promise.all(
            [second, first, second, first].map(({ tryRedeem }) =>
              tryRedeem(activation, activate, effect),
            ),
          );
          same(effects, 1, `effects, ${what}`);
          same(results.filter(({ ok }) => ok).length, 1, `redemptions, ${what}`);
        });
        same(cut >= 2, true, "consume and release were cut");
      },
    ];
    yield [
      `of guesses whose connection is cut ${moment} a command five get a verdict, and none fewer`,
      async () => {
        const cut = await atEveryCommand(COMMANDS.guess, moment, async (what) => {
          const { key, recovery } = freshLinks();
          const [first, second] = guards(key);
          const verdicts = [];
          for (let time = 0; time < TRIES + 2; time += 1) {
            verdicts.push(
              (await first.tryRedeem(recovery, { action: "recover", code: WRONG })).reason,
            );
          }
          for (let time = 0; time < TRIES; time += 1) {
            verdicts.push(
              (await second.tryRedeem(recovery, { action: "recover", code: WRONG })).reason,
            );
          }
          const counted = verdicts.filter((reason) => reason === "ERR_CODE_MISMATCH").length;
          same(counted, TRIES, `verdicts, ${what}: ${verdicts}`);
        });
        same(cut >= TRIES, true, "every try was cut");
      },
    ];
    yield [
      `a try is taken back although the connection is cut ${moment} a command`,
      async () => {
        const until = Math.floor(Date.now() / 1000) + 600;
        const bytes = () => crypto.getRandomValues(new Uint8Array(16));
        const cut = await atEveryCommand(COMMANDS.withdraw, moment, async (what) => {
          const [id, owner, other] = [bytes(), bytes(), bytes()];
          // As a guard does: what fails is asked for once more.
          const twice = (ask) => ask().catch(ask);
          same(await steady.attempt(id, until, other), 1, `another try, ${what}`);
          same(await twice(() => interrupted.attempt(id, until, owner)), 2, `the number, ${what}`);
          await twice(() => interrupted.withdraw(id, until, owner));
          same(await steady.attempt(id, until, owner), 101, `the same try again, ${what}`);
          same(await steady.attempt(id, until, bytes()), 2, `the next try, ${what}`);
          same(await steady.attempt(id, until, other), 1, `the other try again, ${what}`);
        });
        same(cut >= 2, true, "attempt and withdraw were cut");
      },
    ];
  }
}

/**
 * What the owner of a use is there for. A client whose release lost its answer connects again once
 * others have gone on, and sends the release again, by itself if it is one that resends.
 */
export function* threeEffects(
  { createVerifier, createGuard },
  freshLinks,
  proxy,
  interrupted,
  steady,
  { resends = false } = {},
) {
  yield [
    "a release that is sent again after another redemption revives no link: " +
      "two callbacks are run, not three",
    async () => {
      const { key, activation } = freshLinks();
      const verifier = createVerifier({ keys: key });
      const guardOf = (store) => createGuard({ verifier, store, storeTimeout: 60 });
      const ran = [];
      proxy.cut(Number.POSITIVE_INFINITY, "after");
      await interrupted.release(
        new Uint8Array(16),
        Math.floor(Date.now() / 1000) + 60,
        new Uint8Array(16),
      );
      const ofRelease = proxy.commands;
      // A consumes, its callback fails, its release is done,
      // the answer is lost and the connection stays down.
      const a = guardOf(interrupted)
        .redeem(activation, activate, () => {
          ran.push("A");
          proxy.cut(ofRelease, "after", { refuseAfterwards: true });
          throw new Error("origin is down");
        })
        .catch((error) => error);
      for (const end = Date.now() + PATIENCE; proxy.cuts === 0; ) {
        same(Date.now() < end, true, "the answer of the release is cut off in time");
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      // B redeems.
      const b = await guardOf(steady).tryRedeem(activation, activate, () => void ran.push("B"));
      same(b.ok, true, "B");
      // A's connection comes back, and its release arrives once more.
      await proxy.accept();
      await a;
      if (resends) same(proxy.commands > ofRelease, true, "the release was sent again");
      // C gets nothing.
      const c = await guardOf(steady).tryRedeem(activation, activate, () => void ran.push("C"));
      same(c.reason, "ERR_TOKEN_USED", "C");
      same(ran.join(), "A,B", "callbacks");
    },
  ];
}
