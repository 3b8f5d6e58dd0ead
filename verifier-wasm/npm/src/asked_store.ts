import { Denied, denied, type RefusedRedemption } from "./denial.js";
import { InvalidArgumentError, StoreFullError, StoreUnavailableError, TokenExpiredError } from "./errors.js";
import { readMethod } from "./options.js";

/** What a store said, or why that is no consent. */
export type Answer<Value> = { readonly ok: true; readonly answer: Value } | RefusedRedemption;

type Asked<Value> = Answer<Value> | Promise<Answer<Value>>;

/** A store of which nothing is believed but what it may say, and which is not waited for longer than allowed. */
export interface AskedStore {
  consume(id: Uint8Array, rememberUntil: number, owner: Uint8Array): Asked<boolean>;
  readonly attempt: ((id: Uint8Array, rememberUntil: number, owner: Uint8Array) => Asked<number>) | undefined;
  /** Of a store that cannot release, everything stays used. */
  release(id: Uint8Array, rememberUntil: number, owner: Uint8Array): Asked<unknown>;
}

/** The option `store`; its methods are read once. */
export function readStore(store: unknown, timeout: number): AskedStore {
  const consume = readMethod(store, "consume");
  const attempt = readMethod(store, "attempt");
  const release = readMethod(store, "release");
  if (!consume) throw new InvalidArgumentError("the option store has the method consume");
  const releaseNow: AskedStore["release"] = (id, rememberUntil, owner) =>
    release ? ask(() => release(id.slice(), rememberUntil, owner.slice()), timeout, isAnything) : DONE;
  return {
    consume(id, rememberUntil, owner) {
      // Nobody got a first use that comes too late, and nobody will: the token may be tried again.
      const tooLate = (answer: unknown): void =>
        void (answer === true && releaseNow(id, rememberUntil, owner));
      return ask(() => consume(id.slice(), rememberUntil, owner.slice()), timeout, isVerdict, tooLate);
    },
    attempt:
      attempt &&
      ((id, rememberUntil, owner) =>
        ask(() => attempt(id.slice(), rememberUntil, owner.slice()), timeout, isOrdinal)),
    release: releaseNow,
  };
}

const DONE: Answer<unknown> = { ok: true, answer: undefined };

function isAnything(): boolean {
  return true;
}

function isVerdict(answer: unknown): boolean {
  return answer === true || answer === false;
}

function isOrdinal(answer: unknown): boolean {
  return Number.isSafeInteger(answer) && (answer as number) >= 1;
}

/** Asks, without a promise where the store answers at once. */
function ask<Value>(
  call: () => unknown,
  timeout: number,
  isAnswer: (answer: unknown) => boolean,
  tooLate?: (answer: unknown) => void,
): Asked<Value> {
  let said: unknown;
  try {
    said = call();
  } catch (error) {
    return failed(error);
  }
  if (!isObject(said)) return judge(said, isAnswer);
  return wait(said, timeout, tooLate).then((answer) => judge<Value>(answer, isAnswer), failed);
}

function judge<Value>(answer: unknown, isAnswer: (answer: unknown) => boolean): Answer<Value> {
  return isAnswer(answer)
    ? { ok: true, answer: answer as Value }
    : denied(StoreUnavailableError, "the store's answer is none");
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
    if (ours) return new Denied(error.reason, () => error);
  } catch {
    // A proxy that throws when it is asked what it is.
  }
  return denied(StoreUnavailableError, "the store did not answer", { cause: error });
}

/** What a promise comes to within the timeout; what it comes to afterwards goes to `tooLate`. */
function wait(promise: object, timeout: number, tooLate?: (answer: unknown) => void): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let open = true;
    const timer = setTimeout(() => {
      open = false;
      reject(new StoreUnavailableError(`the store did not answer within ${timeout} s`));
    }, timeout * 1000);
    keepNothingAlive(timer);
    // Resolving with a foreign thenable, instead of calling it, also catches one that throws or answers twice.
    new Promise((answered) => answered(promise)).then(
      (answer) => {
        clearTimeout(timer);
        if (open) resolve(answer);
        else tooLate?.(answer);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** Lets the process end although the timer runs, where timers keep processes. */
function keepNothingAlive(timer: unknown): void {
  const { Deno } = globalThis as { Deno?: { unrefTimer?(timer: unknown): void } };
  if (typeof timer === "number") Deno?.unrefTimer?.(timer);
  else (timer as { unref?(): void } | undefined)?.unref?.();
}
