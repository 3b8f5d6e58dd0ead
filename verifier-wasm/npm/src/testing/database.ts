// What stands for the database in tests: it answers of links as `mailroom.redeem` does.

import { hexadecimal } from "../stores/base.js";

/** A row of the database. */
export interface Row {
  readonly action: string;
  readonly code: string | undefined;
  /** The digits of the browser that a link is bound to. */
  readonly browserCode: string | undefined;
  readonly expiresAt: number;
  isUsed: boolean;
  /** Those in the browser that asked, or of a link that is not bound; and those elsewhere. */
  readonly tries: { here: number; elsewhere: number };
}

/** What {@link TestLinks.redeem} takes, which a handler gives to its `redeem`. */
export interface TestRedeeming {
  readonly action: string;
  readonly secret: Uint8Array;
  readonly code?: string | null | undefined;
  readonly bindingIsProven?: boolean | undefined;
  readonly browserCode?: string | null | undefined;
}

/** What {@link TestLinks.redeem} answers. */
export type TestVerdict =
  | "ok"
  | "unknown"
  | "used"
  | "expired"
  | "too_many_attempts"
  | "wrong_code";

const MOST_TRIES = 5;

/** The rows of the links that were signed. */
export class Rows {
  readonly #rows = new Map<string, Row>();

  add(secret: Uint8Array, row: Row): void {
    this.#rows.set(hexadecimal(secret), row);
  }

  /** In the order of migrations/schema/18_redeem.sql. */
  redeem(
    { action, secret, code, bindingIsProven, browserCode }: TestRedeeming,
    now: number,
  ): TestVerdict {
    const row = this.#rows.get(hexadecimal(secret));
    if (row === undefined || row.action !== action) return "unknown";
    if (row.isUsed) return "used";
    if (now >= row.expiresAt) return "expired";
    const isElsewhere = row.browserCode !== undefined && bindingIsProven !== true;
    const hasCode = typeof code === "string";
    if (row.code === undefined && hasCode) return "wrong_code";
    const lacks = typeof browserCode !== "string" || (row.code !== undefined && !hasCode);
    if (isElsewhere && lacks) return "wrong_code";
    if (row.code !== undefined || isElsewhere) {
      const place = isElsewhere ? "elsewhere" : "here";
      if (row.tries[place] >= MOST_TRIES) return "too_many_attempts";
      row.tries[place] += 1;
      const isRight = row.code === undefined || row.code === code;
      if (!isRight || (isElsewhere && row.browserCode !== browserCode)) return "wrong_code";
    }
    row.isUsed = true;
    return "ok";
  }
}
