import { denied, deniedBy, type RefusedRedemption } from "./denial.js";
import { described } from "./described.js";
import { InvalidArgumentError, StoreFullError, StoreUnavailableError, TokenExpiredError } from "./errors.js";
import { readMethod } from "./options.js";

/** What a store said, or why that is no consent. */
export type Answer<Value> = { readonly ok: true; readonly answer: Value } | RefusedRedemption;

type Asked<Value> = Answer<Value> | Promise<Answer<Value>>;

type Question<Value> = (id: Uint8Array, rememberUntil: number, owner: Uint8Array) => Value;

/**
 * A store of which nothing is believed but what it may say, and which is not waited for longer than allowed.
 *
 * An answer that is lost says nothing about what was done, and what was sent may still arrive. So a `consume` without an
 * answer is asked for again, as the same owner, and released if it still is not known: that is final for this owner.
 */
export interface AskedStore {
  readonly consume: Question<Asked<boolean>>;
  readonly attempt: Question<Promise<Answer<number>>> | undefined;
  /** Of a store that cannot release, everything stays used. One that fails is asked twice. */
  readonly release: Question<Promise<Answer<unknown>>>;
  /** The same for a try: of a store that cannot withdraw, every one stays counted. */
  readonly withdraw: Question<Promise<Answer<unknown>>>;
}

/** The option `store`; its methods are read once. */
export function readStore(store: unknown, timeout: number): AskedStore {
  const method = <Value>(name: string, expected: string, isAnswer: (answer: unknown) => boolean) => {
    const found = readMethod(store, name);
    return (
      found &&
      ((id: Uint8Array, rememberUntil: number, owner: Uint8Array): Asked<Value> =>
        ask(
          () => found(id.slice(), rememberUntil, owner.slice()),
          timeout,
          (answer) =>
            isAnswer(answer)
              ? undefined
              : `the store's ${name} answered ${described(answer)} instead of ${expected}`,
        ))
    );
  };
  const consume = method<boolean>("consume", "true or false", isVerdict);
  const attempt = method<number>("attempt", "a whole number from 1", isOrdinal);
  if (!consume) {
    throw new InvalidArgumentError(
      isObject(store)
        ? "the option store has no method consume"
        : `the option store is an object with the method consume, not ${described(store)}`,
    );
  }
  const [release, withdraw] = (["release", "withdraw"] as const).map((name) => {
    const end = method<unknown>(name, "anything", isAnything);
    return async (...given: Parameters<Question<unknown>>): Promise<Answer<unknown>> => {
      if (!end) return DONE;
      const done = await end(...given);
      return done.ok ? done : end(...given);
    };
  }) as [AskedStore["release"], AskedStore["withdraw"]];

  const consumeAgain = async (...given: Parameters<Question<unknown>>): Promise<Answer<boolean>> => {
    const answer = await consume(...given);
    if (answer.ok && answer.answer) return answer;
    // Also what was asked first and may still arrive.
    const released = await release(...given);
    if (released.ok || !isUnknown(answer)) return answer;
    const { error } = answer;
    return denied(StoreUnavailableError, `${error.message}; whether the token counts as used is not known`, {
      cause: error.cause ?? error,
    });
  };

  return {
    consume(...given) {
      const asked = consume(...given);
      const settle = (answer: Answer<boolean>) => (isUnknown(answer) ? consumeAgain(...given) : answer);
      return asked instanceof Promise ? asked.then(settle) : settle(asked);
    },
    attempt:
      attempt &&
      (async (...given) => {
        const answer = await attempt(...given);
        if (isUnknown(answer)) await withdraw(...given);
        return answer;
      }),
    release,
    withdraw,
  };
}

const DONE: Answer<unknown> = { ok: true, answer: undefined };

/** Whether what was asked for may have been done, or may still be. */
function isUnknown<Value>(answer: Answer<Value>): answer is RefusedRedemption {
  return !answer.ok && answer.reason === StoreUnavailableError.reason;
}

function isAnything(): boolean {
  return true;
}

function isVerdict(answer: unknown): boolean {
  return answer === true || answer === false;
}

function isOrdinal(answer: unknown): boolean {
  return Number.isSafeInteger(answer) && (answer as number) >= 1;
}

/** Says what is wrong with an answer. */
type Fault = (answer: unknown) => string | undefined;

/** Asks, without a promise where the store answers at once. */
function ask<Value>(call: () => unknown, timeout: number, fault: Fault): Asked<Value> {
  let said: unknown;
  try {
    said = call();
  } catch (error) {
    return failed(error);
  }
  if (!isObject(said)) return judge(said, fault);
  return wait(said, timeout).then((answer) => judge<Value>(answer, fault), failed);
}

function judge<Value>(answer: unknown, fault: Fault): Answer<Value> {
  const found = fault(answer);
  return found === undefined ? { ok: true, answer: answer as Value } : denied(StoreUnavailableError, found);
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function failed(error: unknown): RefusedRedemption {
  try {
    const ours =
      error instanceof StoreFullError ||
      error instanceof StoreUnavailableError ||
      error instanceof TokenExpiredError;
    if (ours) return deniedBy(error);
  } catch {
    // A proxy that throws when it is asked what it is.
  }
  return denied(StoreUnavailableError, "the store did not answer", { cause: error });
}

/** What a promise comes to within the timeout. The timer keeps a program from ending before it knows. */
function wait(promise: object, timeout: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new StoreUnavailableError(`the store did not answer within ${timeout} s`));
    }, timeout * 1000);
    // Resolving with a foreign thenable, instead of calling it, also catches one that throws or answers twice.
    new Promise((answered) => answered(promise)).then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
