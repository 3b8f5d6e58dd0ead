import { denied, deniedBy, type RefusedRedemption } from "./denial.js";
import { described } from "./described.js";
import {
  errorOf,
  InvalidArgumentError,
  StoreFullError,
  StoreUnavailableError,
  TokenExpiredError,
} from "./errors.js";
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
  const consume = readQuestion<boolean>(store, "consume", timeout, verdictFault);
  const attempt = readQuestion<number>(store, "attempt", timeout, ordinalFault);
  if (!consume) {
    throw new InvalidArgumentError(`the option store has the method consume; it is ${described(store)}`);
  }
  const release = readEnding(store, "release", timeout);
  const withdraw = readEnding(store, "withdraw", timeout);

  /** Asks once more, when it is not known what became of the first time. */
  const consumeAgain: Question<Promise<Answer<boolean>>> = async (id, rememberUntil, owner) => {
    const answer = await consume(id, rememberUntil, owner);
    if (answer.ok && answer.answer) return answer;
    // Also what was asked first and may still arrive.
    const released = await release(id, rememberUntil, owner);
    if (released.ok || !isUnknown(answer)) return answer;
    const error = errorOf(answer);
    return denied(StoreUnavailableError, `${error.message}; whether the token counts as used is not known`, {
      cause: error.cause ?? error,
    });
  };

  return {
    consume(id, rememberUntil, owner) {
      const asked = consume(id, rememberUntil, owner);
      if (!(asked instanceof Promise)) {
        return isUnknown(asked) ? consumeAgain(id, rememberUntil, owner) : asked;
      }
      return asked.then((answer) => (isUnknown(answer) ? consumeAgain(id, rememberUntil, owner) : answer));
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

/** A method that ends something, which is asked for once more if it fails; where there is none, nothing ends. */
function readEnding(store: unknown, name: string, timeout: number): Question<Promise<Answer<unknown>>> {
  const end = readQuestion<unknown>(store, name, timeout, () => undefined);
  return async (id, rememberUntil, owner) => {
    if (!end) return { ok: true, answer: undefined };
    const done = await end(id, rememberUntil, owner);
    return done.ok ? done : end(id, rememberUntil, owner);
  };
}

/** Whether what was asked for may have been done, or may still be. */
function isUnknown<Value>(answer: Answer<Value>): answer is RefusedRedemption {
  return !answer.ok && answer.reason === StoreUnavailableError.reason;
}

/** Says what is wrong with an answer. */
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
