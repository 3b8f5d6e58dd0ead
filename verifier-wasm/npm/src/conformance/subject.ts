import type { TokenStore } from "../stores/token_store.js";

/** What the checks work with. */
export interface Subject {
  readonly store: TokenStore;
  readonly unreachable: TokenStore | undefined;
  readonly small: TokenStore | undefined;
  readonly smallLimit: number;
  readonly concurrency: number;
  /** Seconds since the Unix epoch. */
  now(): number;
  sleep(seconds: number): Promise<void>;
}

/** A check throws a {@link Fault} with what is wrong, or returns why it could not be done. */
export type Check = (subject: Subject) => Promise<Skipped | undefined>;

/** Why a check was not done. */
export class Skipped {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }
}

/** What is wrong with a store. */
export class Fault extends Error {
  override get name(): string {
    return "Fault";
  }
}

/** Fails the check unless `holds`. */
export function demand(holds: boolean, otherwise: string): void {
  if (!holds) throw new Fault(otherwise);
}

/** An id that nobody had before. */
export function freshId(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(16));
}

/** A time that no check lives to see, in whole seconds. */
export function later({ now }: Subject, seconds = 600): number {
  return Math.floor(now()) + seconds;
}

/** An owner that nobody was before. */
export const freshOwner = freshId;

/**
 * A method of the store, called with things that are made useless afterwards,
 * since they are only lent.
 */
async function call(
  method: "consume" | "release" | "attempt" | "withdraw",
  store: TokenStore,
  id: Uint8Array,
  rememberUntil: number,
  owner: Uint8Array,
): Promise<unknown> {
  const [lentId, lentOwner] = [id.slice(), owner.slice()];
  try {
    return await store[method]?.(lentId, rememberUntil, lentOwner);
  } catch (error) {
    return new Thrown(error);
  } finally {
    lentId.fill(0);
    lentOwner.fill(0);
  }
}

/**
 * The answer of the store, or the error that it threw. If no owner is given, the store is asked for
 * a new one.
 */
export async function consume(
  store: TokenStore,
  id: Uint8Array,
  until: number,
  owner = freshOwner(),
) {
  return call("consume", store, id, until, owner);
}

export async function attempt(
  store: TokenStore,
  id: Uint8Array,
  until: number,
  owner = freshOwner(),
) {
  return call("attempt", store, id, until, owner);
}

/** Nothing, or what the store threw. */
export async function release(store: TokenStore, id: Uint8Array, until: number, owner: Uint8Array) {
  return thrown(await call("release", store, id, until, owner));
}

export async function withdraw(
  store: TokenStore,
  id: Uint8Array,
  until: number,
  owner: Uint8Array,
) {
  return thrown(await call("withdraw", store, id, until, owner));
}

function thrown(answer: unknown): Thrown | undefined {
  return answer instanceof Thrown ? answer : undefined;
}

/** The same for a method that has to work. */
export async function demandDone(what: string, doing: Promise<Thrown | undefined>): Promise<void> {
  const failure = await doing;
  demand(failure === undefined, `${what} answered ${shown(failure)}`);
}

/** Something that a store threw. */
export class Thrown {
  readonly #error: unknown;

  constructor(error: unknown) {
    this.#error = error;
  }

  toString(): string {
    const error = this.#error;
    return `an exception (${error instanceof Error ? error.message : typeof error})`;
  }
}

/** An answer in words. */
export function shown(answer: unknown): string {
  return answer instanceof Thrown || typeof answer !== "object" ? String(answer) : "an object";
}

/** Whether an answer of `attempt` is a number that a guard takes. */
export function isOrdinal(answer: unknown): answer is number {
  return Number.isSafeInteger(answer) && (answer as number) >= 1;
}
