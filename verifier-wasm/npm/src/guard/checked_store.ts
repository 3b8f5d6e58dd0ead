import { described } from "../arguments/described.js";
import { readMethod } from "../arguments/options.js";
import { denied, deniedBy, type RefusedRedemption } from "../errors/denial.js";
import {
  errorOf,
  InvalidArgumentError,
  StoreFullError,
  StoreUnavailableError,
  TokenExpiredError,
} from "../errors/errors.js";

/** An answer of the store, or the error class for a missing or wrong one. */
export type Answer<Value> = { readonly ok: true; readonly answer: Value } | RefusedRedemption;

type Asked<Value> = Answer<Value> | Promise<Answer<Value>>;

type Question<Value> = (id: Uint8Array, rememberUntil: number, owner: Uint8Array) => Value;

/**
 * Calls a store with a timeout, accepts only valid answers, and repeats calls without an answer.
 *
 * A call without an answer may have been carried out, or may still be. So a `consume` without an
 * answer is repeated with the same owner, and released unless the repeat answers `true`. The
 * release is final for this owner.
 */
export interface CheckedStore {
  readonly consume: Question<Asked<boolean>>;
  readonly attempt: Question<Promise<Answer<number>>> | undefined;
  /** Without this method in the store, a token stays used. A call that fails is repeated once. */
  readonly release: Question<Promise<Answer<unknown>>>;
  /** The same for an attempt: without this method in the store, it stays counted. */
  readonly withdraw: Question<Promise<Answer<unknown>>>;
}

/** The option `store`; its methods are read once. */
export function readStore(store: unknown, timeout: number): CheckedStore {
  const consume = readQuestion<boolean>(store, "consume", timeout, verdictFault);
  const attempt = readQuestion<number>(store, "attempt", timeout, ordinalFault);
  if (!consume) {
    throw new InvalidArgumentError(
      `the option store has the method consume; it is ${described(store)}`,
    );
  }
  const release = readEnding(store, "release", timeout);
  const withdraw = readEnding(store, "withdraw", timeout);

  /** Repeats a call without an answer. */
  const consumeAgain: Question<Promise<Answer<boolean>>> = async (id, rememberUntil, owner) => {
    const answer = await consume(id, rememberUntil, owner);
    if (answer.ok && answer.answer) return answer;
    // Also the first call, which may still arrive.
    const released = await release(id, rememberUntil, owner);
    if (released.ok || !isUnknown(answer)) return answer;
    const error = errorOf(answer);
    return denied(
      StoreUnavailableError,
      `${error.message}; whether the token counts as used is not known`,
      {
        cause: error.cause ?? error,
      },
    );
  };

  return {
    consume(id, rememberUntil, owner) {
      const asked = consume(id, rememberUntil, owner);
      if (!(asked instanceof Promise)) {
        return isUnknown(asked) ? consumeAgain(id, rememberUntil, owner) : asked;
      }
      return asked.then((answer) =>
        isUnknown(answer) ? consumeAgain(id, rememberUntil, owner) : answer,
      );
    },
    attempt:
      attempt &&
      (async (id, rememberUntil, owner) => {
        const answer = await attempt(id, rememberUntil, owner);
        if (isUnknown(answer)) await withdraw(id, rememberUntil, owner);
        return answer;
      }),
    release,
    withdraw,
  };
}

/** A method of the store, if there is one. */
function readQuestion<Value>(
  store: unknown,
  name: string,
  timeout: number,
  fault: Fault,
): Question<Asked<Value>> | undefined {
  const method = readMethod(store, name);
  return (
    method &&
    ((id, rememberUntil, owner) => {
      let said: unknown;
      try {
        said = method(id.slice(), rememberUntil, owner.slice());
      } catch (error) {
        return failed(error);
      }
      // Without a promise where the store answers at once.
      if (!isObject(said)) return judge(said, fault);
      return wait(said, timeout).then((answer) => judge<Value>(answer, fault), failed);
    })
  );
}

/**
 * `release` or `withdraw`, repeated once if it fails; nothing where the store has no such method.
 */
function readEnding(
  store: unknown,
  name: string,
  timeout: number,
): Question<Promise<Answer<unknown>>> {
  const end = readQuestion<unknown>(store, name, timeout, () => undefined);
  return async (id, rememberUntil, owner) => {
    if (!end) return { ok: true, answer: undefined };
    const done = await end(id, rememberUntil, owner);
    return done.ok ? done : end(id, rememberUntil, owner);
  };
}

/** Whether the call may have been carried out, or may still be. */
function isUnknown<Value>(answer: Answer<Value>): answer is RefusedRedemption {
  return !answer.ok && answer.reason === StoreUnavailableError.reason;
}

/** The error for a wrong answer. */
type Fault = (answer: unknown) => string | undefined;

function verdictFault(answer: unknown): string | undefined {
  if (answer === true || answer === false) return undefined;
  return `the store's consume answered ${described(answer)} instead of true or false`;
}

function ordinalFault(answer: unknown): string | undefined {
  if (Number.isSafeInteger(answer) && (answer as number) >= 1) return undefined;
  return `the store's attempt answered ${described(answer)} instead of a whole number from 1`;
}

function judge<Value>(answer: unknown, fault: Fault): Answer<Value> {
  const found = fault(answer);
  return found === undefined
    ? { ok: true, answer: answer as Value }
    : denied(StoreUnavailableError, found);
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
    // A proxy that throws when its class is read.
  }
  return denied(StoreUnavailableError, "the store did not answer", { cause: error });
}

/** The result of a promise within the timeout. The timer keeps the process alive until then. */
function wait(promise: object, timeout: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new StoreUnavailableError(`the store did not answer within ${timeout} s`));
    }, timeout * 1000);
    // Resolving with a foreign thenable, instead of calling it,
    // also catches one that throws or answers twice.
    new Promise((answered) => answered(promise))
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}
