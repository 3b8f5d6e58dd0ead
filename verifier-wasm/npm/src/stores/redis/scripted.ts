// What the stores in Redis share, whichever way a command reaches the server.

import { described } from "../../arguments/described.js";
import { readClock } from "../../arguments/seconds.js";
import { StoreFullError, StoreUnavailableError } from "../../errors/errors.js";
import { demanding, hexadecimal, readNamespace, tooLate, tooManyOwners } from "../base.js";
import type { TokenStore } from "../token_store.js";
import attemptScript from "./attempt.lua";
import consumeScript from "./consume.lua";
import releaseScript from "./release.lua";
import withdrawScript from "./withdraw.lua";

/** For how many milliseconds a check of the eviction policy is valid. */
export const POLICY_HOLDS = 60_000;

/** The command that tells the policy; unlike CONFIG, it is allowed on most hosted servers. */
export const INFO: readonly string[] = ["INFO", "memory"];

/** The store whose scripts `send` has run by the server that has the key. */
export function scripted(
  send: (key: string, words: string[]) => Promise<unknown>,
  namespace: unknown,
  clock: unknown,
): Required<TokenStore> {
  const prefix = readNamespace(namespace);
  const now = readClock(clock);

  async function run(
    script: string,
    id: Uint8Array,
    milliseconds: number,
    owner: Uint8Array,
  ): Promise<number> {
    // All of a link is in one key, so of a cluster in one slot.
    const key = `${prefix}:${hexadecimal(id)}`;
    let reply: unknown;
    try {
      reply = await send(key, ["EVAL", script, "1", key, hexadecimal(owner), String(milliseconds)]);
    } catch (cause) {
      if (isFull(cause))
        throw new StoreFullError("the Redis server has no memory left for used tokens", { cause });
      throw cause;
    }
    // Some clients read integers as bigint.
    const number = typeof reply === "bigint" ? Number(reply) : reply;
    if (typeof number === "number" && Number.isInteger(number)) return number;
    throw new StoreUnavailableError(
      `the client answered EVAL with ${described(reply)}, not with an integer`,
    );
  }

  /** Relative, so that the server's clock need not agree with anybody's. */
  const left = (rememberUntil: number) => Math.ceil((rememberUntil - now()) * 1000);

  async function remember(
    script: string,
    id: Uint8Array,
    rememberUntil: number,
    owner: Uint8Array,
  ) {
    const milliseconds = left(rememberUntil);
    if (!(milliseconds > 0)) throw tooLate();
    return run(script, id, milliseconds, owner);
  }

  /** `release` and `withdraw` work also when the time of the entry is over. */
  async function end(script: string, id: Uint8Array, rememberUntil: number, owner: Uint8Array) {
    await run(script, id, Math.max(left(rememberUntil), 1), owner);
  }

  return demanding({
    async consume(id, rememberUntil, owner) {
      const answer = await remember(consumeScript, id, rememberUntil, owner);
      if (answer === -1) throw tooManyOwners();
      return answer === 1;
    },
    release: (id, rememberUntil, owner) => end(releaseScript, id, rememberUntil, owner),
    attempt: (id, rememberUntil, owner) => remember(attemptScript, id, rememberUntil, owner),
    withdraw: (id, rememberUntil, owner) => end(withdrawScript, id, rememberUntil, owner),
  });
}

/** Fails unless the server's answer to {@link INFO} says that it evicts nothing. */
export function refuseEviction(info: unknown): void {
  const policy = /^maxmemory_policy:(\S+)/m.exec(String(info))?.[1];
  if (policy === "noeviction") return;
  throw new StoreUnavailableError(
    policy === undefined
      ? "the Redis server does not say that it evicts nothing: its INFO memory has no " +
          "maxmemory_policy"
      : "the Redis server may evict used tokens, which lets them be replayed: " +
          `set maxmemory-policy to noeviction, not ${policy}`,
  );
}

function isFull(error: unknown): boolean {
  return error instanceof Error && /\bOOM\b|\bDB capacity quota exceeded\b/.test(error.message);
}
