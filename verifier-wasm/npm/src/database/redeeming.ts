// The `redeem` of a handler: uses the link and does what it is for in one transaction.
//
// Every verdict is committed, because a wrong code is counted by a row. A verdict is told only
// after its commit: otherwise a code could be tried without being counted. Only `ok` can be rolled
// back, and then nobody has tried a wrong one: the right code may be tried as often as one likes.
//
// What failed without a commit is answered by `{ away }`, whoever has failed: the visitor may read
// that nothing was done. It throws where nobody knows that.

import { described } from "../arguments/described.js";
import { unreadable } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import { isAgain } from "../handler/asking.js";
import type { Away, Verdict } from "../handler/judgement.js";
import type { Again, RedeemableLink } from "../handler/options.js";
import type { ShippedAction } from "../token/shipped.js";
import { byStatements, type Caller, type Runner, type Transactions } from "./adapter.js";
import { CURRENT } from "./call.js";
import { isRepeatable, isUndone, reported } from "./failure.js";
import type { Inside, RedeemedIn } from "./mailroom.js";

/** What was used, for an effect. */
export interface UsedLink<Further extends string = never> {
  /** The token's id, under which you may have kept what the link is for. */
  readonly token: string;
  readonly action: ShippedAction | Further;
  readonly request: Request;
}

/**
 * What an action does once its link was used, in the same transaction. If it throws, or answers
 * `{ again }` or a `Response` of 400 or above, all of that is rolled back, and the link is given
 * back; `onError` gets what it throws, and the visitor reads that nothing was done. It may be
 * called up to five times, where PostgreSQL asks to repeat the transaction (SQLSTATE 40001 and
 * 40P01): do what a rollback does not take back elsewhere.
 *
 * @param transaction what the adapter's client calls so
 * @param subjectId whose link it was; `null` of a token without a subject
 * @param fields the fields of the form
 */
export type Effect<Transaction, Further extends string = never> = (
  transaction: Transaction,
  subjectId: string | null,
  fields: URLSearchParams,
  link: UsedLink<Further>,
) => unknown;

/** The effects of actions, by name. A link of an action without an effect is not used. */
export type Effects<Transaction, Further extends string = never> = {
  readonly [Name in ShippedAction | Further]?: Effect<Transaction, Further> | undefined;
};

/** The `redeem` of a handler, which says of itself that it counts attempts. */
export interface RedeemFunction {
  (link: RedeemableLink<string>): Promise<Verdict | Again | Away | Response>;
  readonly countsAttempts: true;
}

type Answer = Verdict | Again | Away | Response;

/** How many times a transaction is done at most that PostgreSQL asks to repeat. */
const MOST_RUNS = 5;

/** In milliseconds; the longest pause before it is repeated doubles each time. */
const FIRST_PAUSE = 10;

/** @internal */
export function makeRedeem(
  { driver, redeem }: Inside,
  effects: unknown,
): (link: RedeemableLink<string>) => Promise<Answer> {
  if (effects === undefined) {
    return async (link) => {
      try {
        return (await redeem(driver.alone, askedOf(link))).verdict;
      } catch (error) {
        if (isUndone(error)) return { away: reported(error) };
        throw error;
      }
    };
  }
  const { transactions } = driver;
  if (!transactions) {
    throw new InvalidArgumentError(
      "this adapter has no transactions, in which effects could be: use one statement instead",
    );
  }
  if (typeof effects !== "object" || effects === null) {
    throw new InvalidArgumentError(
      `the effects must be an object of functions by action, not ${described(effects)}`,
    );
  }
  return async (link) => {
    const asked = askedOf(link);
    let effect: Effect<unknown, string>;
    try {
      effect = effectOf(effects, link);
    } catch (error) {
      return { away: error };
    }
    for (let run = 1; ; run += 1) {
      const attempt = new Attempt(transactions, (caller) => redeem(caller, asked), link, effect);
      const answer = await attempt.run(run === MOST_RUNS);
      if (answer !== undefined) return answer;
      // By chance, so that those who met once do not meet again.
      const pause = Math.random() * FIRST_PAUSE * 2 ** run;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  };
}

/** What the database is told of a link. */
function askedOf(link: RedeemableLink<string>): object {
  try {
    const { action, secret, code, bindingIsProven, browserCode } = link;
    return { action, secret, code, bindingIsProven, browserCode };
  } catch (cause) {
    throw unreadable(cause);
  }
}

/** Reads it before anything is done: without it a link would be used for nothing. */
function effectOf(effects: object, link: RedeemableLink<string>): Effect<unknown, string> {
  let action: unknown;
  let effect: unknown;
  try {
    ({ action } = link);
    if (Object.hasOwn(effects, action as string))
      effect = (effects as Record<string, unknown>)[action as string];
  } catch (cause) {
    throw unreadable(cause);
  }
  if (typeof effect === "function") return effect as Effect<unknown, string>;
  throw new InvalidArgumentError(
    `the effects have no function for the action ${described(action)}; () => {} does nothing`,
  );
}

/** Thrown to have a transaction rolled back. */
class Undo {
  constructor(readonly answer: Again | Response) {}
}

/** One transaction. */
class Attempt {
  /** What was going on when something threw; `ended` if the effect has ended its transaction. */
  #phase: "beginning" | "redeeming" | "effect" | "ended" | "committing" = "beginning";
  #undo: Undo | undefined;

  constructor(
    readonly transactions: Transactions,
    readonly redeem: (caller: Caller) => Promise<RedeemedIn>,
    readonly link: RedeemableLink<string>,
    readonly effect: Effect<unknown, string>,
  ) {}

  /** Nothing if the transaction is to be repeated. */
  async run(isLast: boolean): Promise<Answer | undefined> {
    try {
      return await this.transactions.transact((transaction) => this.#work(transaction));
    } catch (error) {
      if (this.#undo) return this.#undo.answer;
      if (this.#phase !== "beginning" && isRepeatable(error))
        return isLast ? { away: reported(error) } : undefined;
      // What the application throws is its own.
      if (this.#phase === "effect") return { away: error };
      if (this.#phase === "ended") throw error;
      // Whether a commit has come to anything that failed, nobody knows.
      if (this.#phase === "committing" || error instanceof InvalidArgumentError)
        throw reported(error);
      return { away: reported(error) };
    }
  }

  async #work(transaction: unknown): Promise<Answer> {
    this.#phase = "redeeming";
    this.#undo = undefined;
    const run = this.transactions.inside(transaction);
    const used = await this.redeem(byStatements(run));
    if (used.verdict !== "ok") {
      this.#phase = "committing";
      return used.verdict;
    }
    this.#phase = "effect";
    const { action, fields, request } = this.link;
    const link = Object.freeze({ token: used.token, action: action as ShippedAction, request });
    const { effect } = this;
    let answer: unknown;
    let undo: Undo | undefined;
    try {
      answer = await effect(transaction, used.subjectId, fields, link);
      if (saysAgain(answer) || (answer instanceof Response && answer.status >= 400))
        undo = new Undo(answer);
    } catch (error) {
      // In a transaction that has failed, or has lost its connection, no statement is run.
      const current = await run(CURRENT).catch(() => used.transaction);
      if (current !== used.transaction) this.#phase = "ended";
      throw error;
    }
    if (undo) {
      this.#undo = undo;
      throw undo;
    }
    this.#phase = "redeeming";
    await demandSame(run, used.transaction);
    this.#phase = "committing";
    return answer instanceof Response ? answer : "ok";
  }
}

/** Whatever else an effect returns, such as the rows of its last statement, says nothing. */
function saysAgain(answer: unknown): answer is Again {
  if (typeof answer !== "object" || answer === null || !Object.hasOwn(answer, "again"))
    return false;
  if (isAgain(answer)) return true;
  throw new InvalidArgumentError("an effect answers { again: 'a message of 1,000 characters' }");
}

/**
 * Throws if the effect has ended the transaction, or if a statement of it has failed and the effect
 * has not said so: PostgreSQL then answers a commit by rolling back, which is no error.
 */
async function demandSame(run: Runner, transaction: unknown): Promise<void> {
  if ((await run(CURRENT)) !== transaction)
    throw new InvalidArgumentError("an effect must not end the transaction that it is in");
}
