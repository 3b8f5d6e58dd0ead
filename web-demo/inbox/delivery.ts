// Hands batches to the inbox and says what became of them, in the protocol of `mailroom collect --sender`.

import type { Item } from "./mail.ts";

export interface Batch {
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

const TIMEOUT = 10_000;
const AFTER = 2_000;

/** Never throws: what the inbox did not take is to be tried again. */
export async function deliver({ batch, items }: Batch, inbox: string): Promise<Settlement> {
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
