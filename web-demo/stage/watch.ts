// Looks at everything at its pace, while somebody watches, and tells the audience.

import { setTimeout as pause } from "node:timers/promises";

import type { Audience } from "./audience.ts";
import type { Observer } from "./observer.ts";
import type { Part } from "./part.ts";
import type { Parts } from "./parts.ts";

const EVERY = 500;
const TIMEOUT = 2_000;

/** Tells `counts` and `person`, and whether the database answers, until the end. */
export async function watch(
  parts: Parts,
  observer: Observer,
  audience: Audience,
  ending: AbortSignal,
  database: (answers: boolean) => void,
): Promise<void> {
  for (let round = 0; !ending.aborted; round += 1) {
    const started = Date.now();
    try {
      // The counters every second, a person twice as often.
      if (round % 2 === 0) audience.tell("counts", await counts(parts, observer));
      for (const email of audience.emails) audience.tellPerson(email, await observer.person(email));
      database(true);
    } catch {
      database(false);
    }
    await pause(Math.max(50, EVERY - (Date.now() - started)), undefined, { signal: ending }).catch(
      () => undefined,
    );
  }
}

async function counts({ edge, origin, inbox }: Parts, observer: Observer): Promise<unknown> {
  // What happened before is counted in it.
  const at = Date.now();
  const [census, seen, calls, mails] = await Promise.all([
    observer.census(),
    numbers(edge, "/demo/edge"),
    numbers(origin, "/calls"),
    numbers(inbox, "/counts"),
  ]);
  return { at, census, edge: seen, origin: calls, inbox: mails };
}

/** What a part counts itself, or nothing while it is away. */
async function numbers(part: Part, path: string): Promise<unknown> {
  if (part.state !== "up") return undefined;
  try {
    const response = await fetch(`${part.url}${path}`, { signal: AbortSignal.timeout(TIMEOUT) });
    return await response.json();
  } catch {
    return undefined;
  }
}
