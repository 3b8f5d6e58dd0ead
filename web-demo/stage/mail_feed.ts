// Follows the inbox, and begins again when that was away.

import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { setTimeout as pause } from "node:timers/promises";

import type { Mail } from "../inbox/mail.ts";
import type { Part } from "./part.ts";

/**
 * Calls for each mail that arrives, for ever; also for those that arrive
 * while nobody listens in between.
 */
export async function followMails(
  inbox: Part,
  ending: AbortSignal,
  listener: (mail: Mail) => void,
): Promise<void> {
  let last: string | undefined;
  while (!ending.aborted) {
    try {
      const headers = last === undefined ? {} : { "Last-Event-ID": last };
      const response = await fetch(`${inbox.url}/events`, { headers, signal: ending });
      const input = Readable.fromWeb(response.body as ReadableStream);
      for await (const line of createInterface({ input })) {
        if (line.startsWith("id: ")) last = line.slice("id: ".length);
        if (line.startsWith("data: ")) listener(JSON.parse(line.slice("data: ".length)) as Mail);
      }
    } catch {
      // It is away, which its part tells.
    }
    await pause(300);
  }
}
