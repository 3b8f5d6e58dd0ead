// Hands batches to the inbox and says what became of them, in the protocol of `mailroom collect --sender`.

import type { Item } from "./mail.ts";

export interface Batch {
  /** Of the protocol. */
  readonly v: number;
  readonly batch: string;
  readonly items: readonly Item[];
}

/** What the collector settles the batch by. */
export type Settlement =
  | { readonly batch: string; readonly ok: "all" }
  | {
      readonly batch: string;
      readonly ok: readonly number[];
      readonly retry: readonly { readonly id: number; readonly after_ms: number; readonly reason: string }[];
    };

/** The version of docs/OPERATIONS.md that is understood here. */
const VERSION = 1;

/** Below MAILROOM_SENDER_TIMEOUT (stage/parts.ts), so that the collector gets an answer and has no hung sender to end. */
const TIMEOUT = 2_000;
const AFTER = 2_000;

/** Never throws: what the inbox did not take is to be tried again. */
export async function deliver({ v, batch, items }: Batch, inbox: string): Promise<Settlement> {
  // Whoever runs a newer collector will put a newer sender beside it; until then the mails wait.
  if (v !== VERSION) return refused(batch, items, `this sender knows version ${VERSION} of the lines`);
  try {
    const response = await fetch(`${inbox}/mails`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ batch, items }),
      signal: AbortSignal.timeout(TIMEOUT),
    });
    await response.arrayBuffer();
    if (response.ok) return { batch, ok: "all" };
    return refused(batch, items, `the inbox answered with status ${response.status}`);
  } catch {
    return refused(batch, items, "the inbox does not answer");
  }
}

function refused(batch: string, items: readonly Item[], reason: string): Settlement {
  return { batch, ok: [], retry: items.map(({ id }) => ({ id, after_ms: AFTER, reason })) };
}
