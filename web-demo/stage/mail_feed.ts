// Follows the inbox, and begins again when that was away.

import { setTimeout as pause } from "node:timers/promises";

import { askForMails, type Mail } from "./mail.ts";
import type { Part } from "./part.ts";

/**
 * Calls for each mail that arrives, for ever; also for those that arrive
 * while nobody asks in between.
 */
export async function followMails(
  inbox: Part,
  ending: AbortSignal,
  listener: (mail: Mail) => void,
): Promise<void> {
  let after = 0;
  let { starts } = inbox;
  while (!ending.aborted) {
    try {
      if (starts !== inbox.starts) {
        // An inbox that was started again counts from the beginning.
        after = 0;
        starts = inbox.starts;
      }
      const mails = await askForMails(inbox, { after: String(after), wait: "30s" }, ending);
      for (const { number, ...mail } of mails.reverse()) {
        after = number;
        listener(mail);
      }
    } catch {
      // It is away, which its part tells.
      await pause(300);
    }
  }
}
