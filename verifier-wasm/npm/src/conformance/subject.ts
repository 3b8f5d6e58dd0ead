import type { TokenStore } from "../token_store.js";

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

/** Answers of the store, or what it threw. The id that it is given is made useless afterwards, since it is only lent. */
export async function consume(
  store: TokenStore,
  id: Uint8Array,
  rememberUntil: number,
  owner = freshId(),
): Promise<unknown> {
  const lent = id.slice();
  try {
    return await store.consume(lent, rememberUntil, owner.slice());
  } catch (error) {
    return new Thrown(error);
  } finally {
    lent.fill(0);
  }
}

export async function attempt(store: TokenStore, id: Uint8Array, rememberUntil: number): Promise<unknown> {
  const lent = id.slice();
  try {
    return await store.attempt?.(lent, rememberUntil, freshId());
  } catch (error) {
    return new Thrown(error);
  } finally {
    lent.fill(0);
  }
}

/** Something that a store threw. */
class Thrown {
  readonly #error: unknown;

  constructor(error: unknown) {
    this.#error = error;
  }

  toString(): string {
    return `an exception (${this.#error instanceof Error ? this.#error.message : typeof this.#error})`;
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
