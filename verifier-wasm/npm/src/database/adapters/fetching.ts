import { described } from "../../arguments/described.js";
import { InvalidArgumentError } from "../../errors/errors.js";

/** The address of a server, without slashes at its end; a key or a query is none of it. */
export function readAddress(url: unknown, server: string): string {
  let parsed: URL | undefined;
  try {
    if (typeof url === "string") parsed = new URL(url);
  } catch {
    // It is none.
  }
  const { protocol, username, password, search, hash } = parsed ?? {};
  if (!/^https?:$/.test(protocol ?? "") || `${username}${password}${search}${hash}` !== "")
    throw new InvalidArgumentError(`the option url must be the address of ${server}`);
  return (url as string).replace(/\/+$/, "");
}

/** The option `timeout`, in milliseconds. */
export function readTimeout(seconds: unknown = 30): number {
  if (typeof seconds === "number" && seconds > 0 && seconds <= 600) return seconds * 1_000;
  throw new InvalidArgumentError(
    `the option timeout must be a number of seconds up to 600, not ${described(seconds)}`,
  );
}

/**
 * What a server says of an error, in this member of its JSON; what stands before it says something
 * else.
 */
export function refusal(status: number, text: string, member: string): Error {
  let said: Readonly<Record<string, unknown>> = {};
  try {
    said = (JSON.parse(text) as typeof said | null) ?? {};
  } catch {
    // The page of a proxy.
  }
  const { code = `HTTP_${status}`, [member]: sentence } = said;
  const shown = typeof sentence === "string" ? sentence : `the server answered ${status}`;
  return Object.assign(new Error(shown), { code });
}

/** An error of the platform, whose code is a number or none, as one that tells what it was. */
export function named(error: unknown): unknown {
  const { name } = (error ?? {}) as { readonly name?: unknown };
  if (name !== "TimeoutError" && name !== "AbortError") return error;
  const shown = "the server did not answer in time; whether it was done is not known";
  return Object.assign(new Error(shown), { code: "MAILROOM_TIMEOUT" });
}
