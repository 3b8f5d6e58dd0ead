// Follows the inbox, and begins again when that was away.

import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { setTimeout as pause } from "node:timers/promises";

import type { Mail } from "../inbox/mail.ts";
import type { Part } from "./part.ts";

/** Calls for each mail that arrives, for ever. */
export async function followMails(
  inbox: Part,
  ending: AbortSignal,
  listener: (mail: Mail) => void,
): Promise<void> {
  while (!ending.aborted) {
    try {
      const response = await fetch(`${inbox.url}/events`, { signal: ending });
      const input = Readable.fromWeb(response.body as ReadableStream);
      for await (const line of createInterface({ input })) {
        if (line.startsWith("data: ")) listener(JSON.parse(line.slice("data: ".length)) as Mail);
      }
    } catch {
      // It is away, which its part tells.
    }
    await pause(300);
  }
}
